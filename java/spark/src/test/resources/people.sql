CREATE TABLE terrace.`/data/people` (name STRING, age INT, image BINARY)
TBLPROPERTIES ('tier.image' = 'DISK');

INSERT INTO terrace.`/data/people` VALUES ('Anna', 1, X'00'), ('Berta', 2, X'01');

CREATE OR REPLACE TEMPORARY VIEW people USING terrace OPTIONS (path '/data/people');

SELECT name, age FROM people WHERE age > 1;
