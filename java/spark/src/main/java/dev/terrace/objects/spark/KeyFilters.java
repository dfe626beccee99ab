package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.ListQuery;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.internal.SQLConf;
import org.jspecify.annotations.Nullable;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/// A rule for statements that change rows which match those of a source: of the table only rows are
/// read that may have one of the source's keys, a filter that is known when the statement runs.
///
/// Spark's own rule finds the keys of rows that match, and reads the whole table for that. This one
/// finds those of the source, which is read twice.
///
/// Invariant: rows that are left out match none of the source. So the source must have the same
/// keys both times: it is one that does not change, and has one result. Spark refuses those that
/// chance decides.
final class KeyFilters extends Rule<LogicalPlan> {
    /// As estimated, what all keys of a source may have: they come to the driver.
    private static final long KEYS_BYTES_MAX = 16 << 20;

    /// Joins that give no row of their left table for which the right one has none.
    private static final Set<JoinType> JOINS =
            Set.of(Inner$.MODULE$, RightOuter$.MODULE$, LeftSemi$.MODULE$);

    private KeyFilters() {}

    /// Sees to it that this session knows the rule.
    static void addTo(SparkSession session) {
        if (session instanceof org.apache.spark.sql.classic.SparkSession classic) {
            var methods = classic.experimental();
            synchronized (methods) {
                List<Rule<LogicalPlan>> rules =
                        new ArrayList<>(CollectionConverters.asJava(methods.extraOptimizations()));
                if (rules.stream().noneMatch(KeyFilters.class::isInstance)) {
                    rules.add(new KeyFilters());
                    methods.extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
                }
            }
        }
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return plan instanceof WriteDelta
                        && SQLConf.get().runtimeRowLevelOperationGroupFilterEnabled()
                ? plan.mapChildren(KeyFilters::filtered)
                : plan;
    }

    private static LogicalPlan filtered(LogicalPlan plan) {
        Expression condition = plan instanceof Join join ? condition(join) : null;
        return condition == null
                ? plan.mapChildren(KeyFilters::filtered)
                : plan.mapChildren(child ->
                        child == ((Join) plan).left() ? withFilter(child, condition) : child);
    }

    /// The filter of a join's left table; null: there is none.
    private static @Nullable Expression condition(Join join) {
        DataSourceV2ScanRelation table = table(join.left());
        if (table == null
                || !JOINS.contains(join.joinType())
                || join.condition().isEmpty()
                || !isSame(join.right())) {
            return null;
        }
        Expression all = null;
        for (EqualTo equality : equalities(join.condition().get())) {
            Expression one = condition(equality.left(), equality.right(), table, join.right());
            if (one == null) {
                one = condition(equality.right(), equality.left(), table, join.right());
            }
            all = all == null || one == null ? one == null ? all : one : new And(all, one);
        }
        return all;
    }

    /// The table whose rows a statement changes, if this is nothing but a scan of it that has no
    /// such filter yet.
    private static @Nullable DataSourceV2ScanRelation table(LogicalPlan plan) {
        return switch (plan) {
            case Project project -> table(project.child());
            case Filter filter when !isKeyFilter(filter) -> table(filter.child());
            case DataSourceV2ScanRelation relation
                    when relation.scan() instanceof TableScan scan && scan.isOfStatement() ->
                    relation;
            default -> null;
        };
    }

    private static boolean isKeyFilter(Filter filter) {
        return filter.condition().exists(each -> each instanceof DynamicPruningExpression);
    }

    private static List<EqualTo> equalities(Expression condition) {
        List<EqualTo> all = new ArrayList<>();
        switch (condition) {
            case And and -> {
                all.addAll(equalities(and.left()));
                all.addAll(equalities(and.right()));
            }
            case EqualTo equality -> all.add(equality);
            default -> {}
        }
        return all;
    }

    /// That a column is one of a source's keys; null if it is no column, or its scan has no such
    /// filters, or the keys are too many.
    private static @Nullable Expression condition(
            Expression column, Expression key, DataSourceV2ScanRelation table, LogicalPlan source) {
        if (!(column instanceof Attribute attribute)
                || !table.outputSet().contains(attribute)
                || !((TableScan) table.scan()).filterColumns().contains(attribute.name())
                || !key.references().subsetOf(source.outputSet())) {
            return null;
        }
        NamedExpression named =
                new Alias(
                        key,
                        "key",
                        NamedExpression$.MODULE$.newExprId(),
                        seq(List.of()),
                        Option.empty(),
                        seq(List.of()));
        LogicalPlan keys =
                new Aggregate(seq(List.of(key)), seq(List.of(named)), source, Option.empty());
        return keys.stats().sizeInBytes().isValidLong()
                        && keys.stats().sizeInBytes().toLong() <= KEYS_BYTES_MAX
                ? new DynamicPruningExpression(new InSubquery(seq(List.of(column)), listed(keys)))
                : null;
    }

    private static ListQuery listed(LogicalPlan keys) {
        return new ListQuery(
                keys,
                seq(List.of()),
                NamedExpression$.MODULE$.newExprId(),
                1,
                seq(List.of()),
                Option.empty());
    }

    private static LogicalPlan withFilter(LogicalPlan plan, Expression condition) {
        return plan instanceof DataSourceV2ScanRelation
                ? new Filter(condition, plan)
                : plan.mapChildren(child -> withFilter(child, condition));
    }

    /// Whether a source has the same keys each time it is read, as far as its plan shows.
    private static boolean isSame(LogicalPlan source) {
        return source.subqueriesAll().isEmpty() && !source.exists(node -> !isOfOneResult(node));
    }

    /// Whether an operation, or a table, has one result only. Others have several, as which rows a
    /// limit gives, or an unknown one, as an RDD, functions of objects, and databases.
    private static boolean isOfOneResult(LogicalPlan node) {
        return switch (node) {
            case Project _,
                    Filter _,
                    Join _,
                    Aggregate _,
                    Union _,
                    Sort _,
                    Expand _,
                    Generate _,
                    RepartitionOperation _ ->
                    true;
            case LocalRelation _, OneRowRelation _, Range _, InMemoryRelation _ -> true;
            case LogicalRelation relation -> relation.relation() instanceof HadoopFsRelation;
            case DataSourceV2ScanRelation relation ->
                    relation.scan() instanceof TableScan || relation.scan() instanceof FileScan;
            default -> false;
        };
    }

    private static <T> Seq<T> seq(List<T> all) {
        return CollectionConverters.asScala(all).toSeq();
    }
}
