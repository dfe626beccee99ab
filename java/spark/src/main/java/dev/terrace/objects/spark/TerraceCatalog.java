package dev.terrace.objects.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.jspecify.annotations.Nullable;

/// A catalog whose tables are named by their paths: ``SELECT * FROM terrace.`/data/people` ``. It
/// keeps nothing itself.
///
/// It is there under the name `terrace` once a session has used the format, or when
/// `spark.sql.catalog.terrace` names this class.
public final class TerraceCatalog implements StagingTableCatalog, ProcedureCatalog {
    /// The namespace of paths that come from the format's options. A writer may append to such a
    /// table before there is one.
    private static final String[] PATHS = {"path"};

    private static final String VACUUM = "vacuum";
    private static final long MICROS = 1_000_000;

    private String name = TerraceSource.NAME;

    /// For Spark.
    public TerraceCatalog() {}

    @Override
    public void initialize(String itsName, CaseInsensitiveStringMap options) {
        name = itsName;
    }

    @Override
    public String name() {
        return name;
    }

    static Identifier identifierOf(String path) {
        return Identifier.of(PATHS, path);
    }

    private static Configuration configuration() {
        return SparkSession.active().sparkContext().hadoopConfiguration();
    }

    static ManifestLog log(String path) throws IOException {
        return new ManifestLog(path, configuration());
    }

    /// A table that is to be written first.
    static TerraceTable table(String path) {
        return TerraceTable.current(path, current(path), configuration());
    }

    private static @Nullable Manifest current(String path) {
        try {
            ManifestLog log = log(path);
            Manifest current = log.current();
            return current == null ? null : log.requireKind(current, Manifest.TABLE);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// The exception for a query that names a missing table.
    static NoSuchTableException noTable(String path) {
        return new NoSuchTableException(Identifier.of(new String[] {TerraceSource.NAME}, path));
    }

    /// No table has another name than its path.
    @Override
    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public boolean tableExists(Identifier ident) {
        return current(ident.name()) != null;
    }

    @Override
    public Table loadTable(Identifier ident) throws NoSuchTableException {
        TerraceTable table = table(ident.name());
        if (table.isAbsent() && !Arrays.equals(ident.namespace(), PATHS)) {
            throw new NoSuchTableException(ident);
        }
        return table;
    }

    @Override
    public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
        try {
            ManifestLog log = requireTable(ident);
            try {
                return TerraceTable.fixed(
                        ident.name(),
                        log.requireKind(log.at(Long.parseLong(version)), Manifest.TABLE),
                        configuration());
            } catch (FileNotFoundException | NumberFormatException e) {
                throw new IllegalArgumentException(
                        log.root()
                                + " has no version "
                                + version
                                + ", but "
                                + log.numbers()
                                + ": a "
                                + VACUUM
                                + " may have removed it",
                        e);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static ManifestLog requireTable(Identifier ident)
            throws IOException, NoSuchTableException {
        ManifestLog log = log(ident.name());
        try {
            log.require(Manifest.TABLE);
            return log;
        } catch (FileNotFoundException e) {
            throw noTable(ident.name());
        }
    }

    /// As it was at a moment, in microseconds since 1970.
    @Override
    public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
        Instant then =
                Instant.EPOCH.plus(
                        Duration.ofSeconds(timestamp / MICROS, timestamp % MICROS * 1000));
        try {
            ManifestLog log = requireTable(ident);
            for (long number : log.numbers().reversed()) {
                if (!log.committedAt(number).isAfter(then)) {
                    return loadTable(ident, Long.toString(number));
                }
            }
            throw new IllegalArgumentException(
                    log.root()
                            + " has no version that is as old as "
                            + then
                            + ": a "
                            + VACUUM
                            + " may have removed it");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Makes a table without rows.
    @Override
    public Table createTable(Identifier ident, TableInfo info) throws TableAlreadyExistsException {
        for (StructField column : info.schema().fields()) {
            if (!column.nullable()) {
                throw new IllegalArgumentException(
                        "column "
                                + column.name()
                                + ": NOT NULL is not kept by tables: leave it out");
            }
        }
        StagedTable staged = stageCreate(ident, info);
        staged.commitStagedChanges();
        return table(ident.name());
    }

    @Override
    public StagedTable stageCreate(Identifier ident, TableInfo info)
            throws TableAlreadyExistsException {
        if (current(ident.name()) != null) {
            throw new TableAlreadyExistsException(ident);
        }
        return staged(ident, info);
    }

    @Override
    public StagedTable stageReplace(Identifier ident, TableInfo info) throws NoSuchTableException {
        if (current(ident.name()) == null) {
            throw new NoSuchTableException(ident);
        }
        return staged(ident, info);
    }

    @Override
    public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) {
        return staged(ident, info);
    }

    private StagedTable staged(Identifier ident, TableInfo info) {
        String location = info.properties().getOrDefault(PROP_LOCATION, ident.name());
        if (!location.equals(ident.name())) {
            throw new IllegalArgumentException(
                    "a table's name is its path: write "
                            + name
                            + ".`"
                            + location
                            + "` instead of LOCATION");
        }
        TableColumns columns = TableColumns.of(TableSchema.of(info.schema()), info.partitions());
        return new StagedTerraceTable(
                ident.name(),
                current(ident.name()),
                columns.partitionedBy(new CaseInsensitiveStringMap(info.properties())),
                info.properties(),
                configuration());
    }

    /// Gives a table other options, which hold for later writes.
    ///
    /// @throws UnsupportedOperationException if the changes are others
    @Override
    public Table alterTable(Identifier ident, TableChange... changes) {
        for (TableChange change : changes) {
            requireOption(ident, change);
        }
        try {
            ManifestLog log = log(ident.name());
            Manifest before = log.require(Manifest.TABLE);
            PartStore store =
                    new PartStore(log.root(), PartitionOptions.defaults(), configuration());
            WriteJob.begin(log, store)
                    .commit(present ->
                            altered(before.requireTable(present, "ALTER TABLE"), changes));
            return table(ident.name());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void requireOption(Identifier ident, TableChange change) {
        switch (change) {
            case TableChange.SetProperty set when isOption(set.property()) -> {}
            case TableChange.RemoveProperty removed when isOption(removed.property()) -> {}
            default ->
                    throw new UnsupportedOperationException(
                            "a table cannot be altered, but for its options by SET TBLPROPERTIES:"
                                    + " CREATE OR REPLACE TABLE "
                                    + name
                                    + ".`"
                                    + ident.name()
                                    + "` AS SELECT makes another of it");
        }
    }

    private static boolean isOption(String property) {
        TableOptions.requireKnown(Map.of(property, ""));
        return TableOptions.isKept(property.toLowerCase(Locale.ROOT));
    }

    private static Manifest altered(Manifest present, TableChange... changes) {
        Map<String, String> options = new TreeMap<>(present.options());
        for (TableChange change : changes) {
            if (change instanceof TableChange.SetProperty set) {
                options.put(set.property().toLowerCase(Locale.ROOT), set.value());
            } else if (change instanceof TableChange.RemoveProperty removed) {
                options.remove(removed.property().toLowerCase(Locale.ROOT));
            }
        }
        TableOptions checked =
                new TableOptions(options).requireColumns(TerraceTable.schema(present));
        return present.next(checked);
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException(
                "a table's name is its path: move " + from.name() + " there");
    }

    @Override
    public UnboundProcedure loadProcedure(Identifier ident) {
        return TableProcedure.of(ident);
    }

    @Override
    public Identifier[] listProcedures(String[] namespace) {
        return TableProcedure.identifiers(namespace);
    }

    /// Removes the table with all its versions, at once: also for who reads it.
    @Override
    public boolean dropTable(Identifier ident) {
        if (current(ident.name()) == null) {
            return false;
        }
        try {
            Snapshots.drop(log(ident.name()), configuration());
            return true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
