UPDATE terrace.`/data/people` SET age = age + 1 WHERE name = 'Anna';

DELETE FROM terrace.`/data/people` WHERE age IS NULL;

CREATE TEMPORARY VIEW news AS SELECT * FROM VALUES ('Berta', 3), ('Clara', 4), ('Dora', NULL) AS (name, age);

MERGE INTO terrace.`/data/people` AS old USING news ON old.name = news.name
WHEN MATCHED AND news.age IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET age = news.age
WHEN NOT MATCHED THEN INSERT (name, age) VALUES (news.name, news.age)
WHEN NOT MATCHED BY SOURCE AND old.age > 120 THEN DELETE;
