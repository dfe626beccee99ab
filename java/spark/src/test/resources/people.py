import sys
from pyspark.sql import SparkSession

path = sys.argv[1]
spark = SparkSession.builder.appName("people").getOrCreate()

people = spark.createDataFrame([("Anna", 1, b"\x00"), ("Berta", 2, b"\x01")], "name string, age int, image binary")
people.write.format("terrace").option("tier.image", "DISK").mode("append").save(path)

print(spark.read.format("terrace").load(path).where("age > 1").select("name", "age").collect())
spark.stop()
