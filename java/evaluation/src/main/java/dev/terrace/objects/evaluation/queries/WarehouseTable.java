package dev.terrace.objects.evaluation.queries;

import static dev.terrace.objects.evaluation.queries.Order.hundredths;

import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/// The tables that queries read, like those of TPC-H: columns, numbers of rows, and the
/// distributions of values are those of its specification (1.4 and 4.2.3), and the seed is fixed.
///
/// Random numbers are our own, and so are comments: words of TPC-H, without its grammar.
/// `partsupp`, which no query here reads, is left out.
enum WarehouseTable {
    REGION("r_regionkey BIGINT, r_name STRING, r_comment STRING") {
        @Override
        long count(Scale scale) {
            return Words.REGIONS.size();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            return List.of(
                    RowFactory.create(
                            number,
                            Words.REGIONS.get((int) number),
                            Words.comment(31, 115, random)));
        }
    },
    NATION("n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING") {
        @Override
        long count(Scale scale) {
            return Words.NATIONS.size();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            Words.Nation nation = Words.NATIONS.get((int) number);
            return List.of(
                    RowFactory.create(
                            number,
                            nation.name(),
                            nation.region(),
                            Words.comment(31, 114, random)));
        }
    },
    SUPPLIER(
            "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING,"
                    + " s_acctbal DECIMAL(12,2), s_comment STRING") {
        @Override
        long count(Scale scale) {
            return scale.suppliers();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            long nation = random.nextLong(Words.NATIONS.size());
            return List.of(
                    RowFactory.create(
                            number + 1,
                            String.format("Supplier#%09d", number + 1),
                            Words.letters(10, 40, random),
                            nation,
                            Words.phone(nation, random),
                            hundredths(random.nextLong(-99_999, 1_000_000)),
                            Words.comment(25, 100, random)));
        }
    },
    CUSTOMER(
            "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING,"
                    + " c_acctbal DECIMAL(12,2), c_mktsegment STRING, c_comment STRING") {
        @Override
        long count(Scale scale) {
            return scale.customers();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            long nation = random.nextLong(Words.NATIONS.size());
            return List.of(
                    RowFactory.create(
                            number + 1,
                            String.format("Customer#%09d", number + 1),
                            Words.letters(10, 40, random),
                            nation,
                            Words.phone(nation, random),
                            hundredths(random.nextLong(-99_999, 1_000_000)),
                            Words.any(Words.SEGMENTS, random),
                            Words.comment(29, 116, random)));
        }
    },
    PART(
            "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size"
                    + " INT, p_container STRING, p_retailprice DECIMAL(12,2), p_comment STRING") {
        @Override
        long count(Scale scale) {
            return scale.parts();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            int maker = random.nextInt(5) + 1;
            String name =
                    String.join(
                            " ",
                            Stream.generate(() -> Words.any(Words.COLOURS, random))
                                    .distinct()
                                    .limit(5)
                                    .toList());
            return List.of(
                    RowFactory.create(
                            number + 1,
                            name,
                            "Manufacturer#" + maker,
                            "Brand#" + maker + (random.nextInt(5) + 1),
                            Words.anyOfEach(Words.TYPES, random),
                            random.nextInt(50) + 1,
                            Words.anyOfEach(Words.CONTAINERS, random),
                            hundredths(Order.retailPrice(number + 1)),
                            Words.comment(5, 22, random)));
        }
    },
    ORDERS(
            "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12,2),"
                    + " o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority"
                    + " INT, o_comment STRING") {
        @Override
        long count(Scale scale) {
            return scale.orders();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            return List.of(Order.of(scale, number, random).row());
        }
    },
    LINEITEM(
            "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity"
                    + " DECIMAL(12,2), l_extendedprice DECIMAL(12,2), l_discount DECIMAL(12,2),"
                    + " l_tax DECIMAL(12,2), l_returnflag STRING, l_linestatus STRING, l_shipdate"
                    + " DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,"
                    + " l_shipmode STRING, l_comment STRING") {
        /// Of orders, each of which has several rows.
        @Override
        long count(Scale scale) {
            return scale.orders();
        }

        @Override
        List<Row> rows(Scale scale, long number, SplittableRandom random) {
            return Order.of(scale, number, random).lineRows();
        }

        /// Lines and their orders are made of the same numbers.
        @Override
        long seed() {
            return ORDERS.seed();
        }
    };

    private static final long SEED = 20180401;

    /// Random numbers of tables lie so far apart.
    private static final long SEED_STEP = 1L << 40;

    /// A file has about so many of what is counted, and so has each part of a table.
    private static final long COUNT_OF_FILE = 50_000;

    private static final long FILES_MAX = 4;

    /// Columns and their types.
    private final String columns;

    WarehouseTable(String columns) {
        this.columns = columns;
    }

    /// How many of what [#rows(Scale, long, SplittableRandom)] numbers there are.
    abstract long count(Scale scale);

    /// The rows with a number, from 0.
    abstract List<Row> rows(Scale scale, long number, SplittableRandom random);

    long seed() {
        return SEED + ordinal() * SEED_STEP;
    }

    /// The name that queries know it by.
    String title() {
        return name().toLowerCase(Locale.ROOT);
    }

    StructType schema() {
        return StructType.fromDDL(columns);
    }

    /// The rows of a range of numbers.
    Iterator<Row> rows(Scale scale, long from, long to) {
        return LongStream.range(from, to)
                .boxed()
                .flatMap(number -> rows(scale, number, random(number)).stream())
                .iterator();
    }

    /// Numbers that depend on nothing else, so that tasks can make rows in any order.
    private SplittableRandom random(long number) {
        return new SplittableRandom(new SplittableRandom(seed() + number).nextLong());
    }

    /// All of its rows, in as many partitions as it gets files.
    Dataset<Row> generate(SparkSession session, Scale scale) {
        long count = count(scale);
        int files = (int) Math.clamp(count / COUNT_OF_FILE, 1, FILES_MAX);
        List<Integer> numbers = LongStream.range(0, files).mapToObj(i -> (int) i).toList();
        return session.createDataFrame(
                JavaSparkContext.fromSparkContext(session.sparkContext())
                        .parallelize(numbers, files)
                        .mapPartitions(given -> {
                            long file = given.next();
                            return rows(scale, count * file / files, count * (file + 1) / files);
                        }),
                schema());
    }
}
