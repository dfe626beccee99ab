package dev.terrace.objects.evaluation.queries;

/// Ten queries of TPC-H, with the parameters that its specification validates them with: scans,
/// filters, joins, groups, orders and strings. None can be answered from a manifest.
enum Query {
    Q1(
            "pricing summary: a scan of nearly all lines, eight sums",
            """
            SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
                sum(l_extendedprice) AS sum_base_price,
                sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
                sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
                avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price,
                avg(l_discount) AS avg_disc, count(*) AS count_order
            FROM lineitem
            WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
            GROUP BY l_returnflag, l_linestatus
            ORDER BY l_returnflag, l_linestatus
            """),
    Q3(
            "shipping priority: three tables joined, ten best groups of many",
            """
            SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate,
                o_shippriority
            FROM customer, orders, lineitem
            WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
                AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
            GROUP BY l_orderkey, o_orderdate, o_shippriority
            ORDER BY revenue DESC, o_orderdate
            LIMIT 10
            """),
    Q4(
            "order priority: a semi-join with lines of which one date is before another",
            """
            SELECT o_orderpriority, count(*) AS order_count
            FROM orders
            WHERE o_orderdate >= DATE '1993-07-01'
                AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
                AND EXISTS (
                    SELECT * FROM lineitem
                    WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
            GROUP BY o_orderpriority
            ORDER BY o_orderpriority
            """),
    Q5(
            "volume of local suppliers: six tables joined",
            """
            SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
            FROM customer, orders, lineitem, supplier, nation, region
            WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
                AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
                AND n_regionkey = r_regionkey AND r_name = 'ASIA'
                AND o_orderdate >= DATE '1994-01-01'
                AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
            GROUP BY n_name
            ORDER BY revenue DESC
            """),
    Q6(
            "forecast of revenue: a scan with a filter that few lines meet",
            """
            SELECT sum(l_extendedprice * l_discount) AS revenue
            FROM lineitem
            WHERE l_shipdate >= DATE '1994-01-01'
                AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
                AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24
            """),
    Q10(
            "returned items: groups by seven columns, most of them strings",
            """
            SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal,
                n_name, c_address, c_phone, c_comment
            FROM customer, orders, lineitem, nation
            WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
                AND o_orderdate >= DATE '1993-10-01'
                AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH
                AND l_returnflag = 'R' AND c_nationkey = n_nationkey
            GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
            ORDER BY revenue DESC
            LIMIT 20
            """),
    Q12(
            "modes of shipping: a filter of strings and dates, a join",
            """
            SELECT l_shipmode,
                sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH'
                    THEN 1 ELSE 0 END) AS high_line_count,
                sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH'
                    THEN 1 ELSE 0 END) AS low_line_count
            FROM orders, lineitem
            WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
                AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
                AND l_receiptdate >= DATE '1994-01-01'
                AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
            GROUP BY l_shipmode
            ORDER BY l_shipmode
            """),
    Q14(
            "effect of promotions: a month's lines joined with parts, a prefix of strings",
            """
            SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%'
                    THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
                / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
            FROM lineitem, part
            WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'
                AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH
            """),
    Q18(
            "large orders: lines grouped by their orders, and joined with them again",
            """
            SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
            FROM customer, orders, lineitem
            WHERE o_orderkey IN (
                    SELECT l_orderkey FROM lineitem
                    GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
                AND c_custkey = o_custkey AND o_orderkey = l_orderkey
            GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
            ORDER BY o_totalprice DESC, o_orderdate
            LIMIT 100
            """),
    Q19(
            "discounted revenue: a join with three alternatives of conditions",
            """
            SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
            FROM lineitem, part
            WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12'
                    AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
                    AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5
                    AND l_shipmode IN ('AIR', 'AIR REG')
                    AND l_shipinstruct = 'DELIVER IN PERSON')
                OR (p_partkey = l_partkey AND p_brand = 'Brand#23'
                    AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
                    AND l_quantity >= 10 AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 10
                    AND l_shipmode IN ('AIR', 'AIR REG')
                    AND l_shipinstruct = 'DELIVER IN PERSON')
                OR (p_partkey = l_partkey AND p_brand = 'Brand#34'
                    AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
                    AND l_quantity >= 20 AND l_quantity <= 20 + 10 AND p_size BETWEEN 1 AND 15
                    AND l_shipmode IN ('AIR', 'AIR REG')
                    AND l_shipinstruct = 'DELIVER IN PERSON')
            """);

    /// Its work, in words.
    final String work;

    /// The query itself, the same for all systems.
    final String sql;

    Query(String work, String sql) {
        this.work = work;
        this.sql = sql;
    }
}
