CREATE TABLE terrace.`/data/visits` (person STRING, day DATE, minutes INT) PARTITIONED BY (day);

INSERT INTO terrace.`/data/visits` VALUES
  ('Anna', DATE'2030-01-01', 20), ('Berta', DATE'2030-01-01', 5), ('Anna', DATE'2030-01-02', 9);

SHOW PARTITIONS terrace.`/data/visits`;

SET spark.sql.sources.partitionOverwriteMode = dynamic;

INSERT OVERWRITE terrace.`/data/visits` VALUES ('Clara', DATE'2030-01-02', 7);

ALTER TABLE terrace.`/data/visits` DROP PARTITION (day = DATE'2030-01-01');

SELECT person, day FROM terrace.`/data/visits`;
