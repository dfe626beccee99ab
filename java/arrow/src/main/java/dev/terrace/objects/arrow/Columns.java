package dev.terrace.objects.arrow;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.ValueType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.jspecify.annotations.Nullable;

/// The columns of the objects of a class: one for each field, those of an embedded object within
/// one, and before them one that names the object.
///
/// Collections and fields in `DRAM` have no column; the schema names them.
final class Columns {
    /// The column that names the object. No field of a Java class has such a name.
    static final String ID = "@id";

    /// Of a schema: the class, the pool, and the fields that have no column.
    static final String CLASS = "terrace.class";

    static final String POOL = "terrace.pool";
    static final String LEFT_OUT = "terrace.left_out";

    /// Of a column: the class of its values, if Arrow's type does not say it; that of the objects
    /// that its references lead to.
    static final String TYPE = "terrace.type";

    static final String LEADS_TO = "terrace.leads_to";

    private final ObjectType<?> type;
    private final Shape shape;
    private final boolean mayBeNull;
    private final Set<String> embedded = new HashSet<>();
    private final List<String> leftOut = new ArrayList<>();
    private final Cells ids = new NumberCells(FieldKind.LONG);

    /// The columns that stand side by side, and all of them, with those within others.
    private final List<Column> outer;

    private final List<Column> all = new ArrayList<>();
    private final boolean hasIds;

    /// @param mayBeNull whether there may be rows without an object
    /// @throws IllegalArgumentException if what the program has said does not fit the class
    Columns(ObjectType<?> type, Shape shape, boolean mayBeNull) {
        this.type = type;
        this.shape = shape;
        this.mayBeNull = mayBeNull;
        hasIds = shape.wants(ID);
        findEmbedded();
        requireKnown();
        outer = level("");
    }

    private List<FieldSpec> fields() {
        return type.fields();
    }

    /// An embedded object is a boolean, whether it is there, and fields whose names begin with its
    /// own.
    private void findEmbedded() {
        for (FieldSpec field : fields()) {
            if (field.kind() == FieldKind.BOOLEAN
                    && !field.nullable()
                    && !field.isVolatile()
                    && fields().stream()
                            .anyMatch(its -> its.name().startsWith(field.name() + "."))) {
                embedded.add(field.name());
            }
        }
    }

    private void requireKnown() {
        if (hasIds && fields().stream().anyMatch(field -> field.name().equals(ID))) {
            throw new IllegalArgumentException(
                    type + " has a field " + ID + ", as the column of ids is called: name columns");
        }
        Set<String> wanted = shape.names() == null ? Set.of() : shape.names();
        for (String name : wanted) {
            FieldSpec known = find(name);
            if (known == null && !name.equals(ID)) {
                throw unknown(name);
            }
            if (known != null && hasNoColumn(known)) {
                throw new IllegalArgumentException(
                        type
                                + ": field "
                                + name
                                + (known.isVolatile() ? " is in DRAM" : " is a collection")
                                + ", so it has no column");
            }
        }
        for (String name : shape.decimals().keySet()) {
            FieldSpec known = find(name);
            if (known == null) {
                throw unknown(name);
            }
            ValueType<?> values = ValueType.of(known);
            if (values != ValueType.BIG_DECIMAL && values != ValueType.BIG_INTEGER) {
                throw new IllegalArgumentException(
                        type + ": field " + name + " is no BigDecimal and no BigInteger");
            }
        }
    }

    private @Nullable FieldSpec find(String name) {
        return fields().stream().filter(field -> field.name().equals(name)).findAny().orElse(null);
    }

    private IllegalArgumentException unknown(String name) {
        return new IllegalArgumentException(
                type
                        + " has no field "
                        + name
                        + "; it has "
                        + fields().stream().map(FieldSpec::name).toList());
    }

    private static boolean hasNoColumn(FieldSpec field) {
        return field.isVolatile() || field.isCollection();
    }

    /// The columns of the fields whose names begin so, but for those within embedded objects.
    private List<Column> level(String prefix) {
        List<Column> found = new ArrayList<>();
        for (int i = 0; i < fields().size(); i++) {
            FieldSpec field = fields().get(i);
            String name = field.name();
            if (name.startsWith(prefix) && !isDeeper(name, prefix) && shape.wants(name)) {
                if (hasNoColumn(field)) {
                    leftOut.add(name);
                } else {
                    String column = name.substring(prefix.length());
                    found.add(new Column(type, i, column, cells(field), mayBeNull));
                }
            }
        }
        all.addAll(found);
        return found;
    }

    private boolean isDeeper(String name, String prefix) {
        for (int dot = name.indexOf('.', prefix.length());
                dot >= 0;
                dot = name.indexOf('.', dot + 1)) {
            if (embedded.contains(name.substring(0, dot))) {
                return true;
            }
        }
        return false;
    }

    private Cells cells(FieldSpec field) {
        ValueType<?> values = ValueType.of(field);
        Cells found = values == null ? null : ValueCells.of(values.name(), field.name(), shape);
        if (found != null) {
            return found;
        }
        FieldKind kind = field.kind();
        if (embedded.contains(field.name())) {
            return new EmbeddedCells(level(field.name() + "."));
        }
        if (kind.isArray()) {
            return field.fixedLength() > 0
                    ? new FixedArrayCells(kind.element(), field.fixedLength())
                    : kind == FieldKind.BYTES ? new BytesCells() : new ArrayCells(kind.element());
        }
        return switch (kind) {
            case STRING, ENUM -> new TextCells();
            default -> new NumberCells(kind);
        };
    }

    /// The schema of batches with these columns.
    Schema schema(Pool pool) {
        List<Field> described = new ArrayList<>();
        if (hasIds) {
            described.add(new Field(ID, new FieldType(mayBeNull, ids.type(), null), List.of()));
        }
        outer.forEach(column -> described.add(column.described()));
        Map<String, String> notes = new LinkedHashMap<>();
        notes.put(CLASS, type.name());
        notes.put(POOL, pool.id().toString());
        if (!leftOut.isEmpty()) {
            notes.put(LEFT_OUT, String.join(",", leftOut));
        }
        return new Schema(described, notes);
    }

    /// All columns, also those within others.
    List<Column> all() {
        return all;
    }

    /// Bytes that each row takes, at least.
    int width() {
        return (hasIds ? ids.width() : 0)
                + all.stream().mapToInt(each -> each.cells().width()).sum();
    }

    /// Values go into these vectors from now on.
    void bind(VectorSchemaRoot root) {
        if (hasIds) {
            ids.bind(root.getVector(ID));
        }
        List<FieldVector> vectors = root.getFieldVectors();
        bind(outer, vectors.subList(hasIds ? 1 : 0, vectors.size()));
    }

    private static void bind(List<Column> columns, List<FieldVector> vectors) {
        for (int i = 0; i < columns.size(); i++) {
            Cells cells = columns.get(i).cells();
            cells.bind(vectors.get(i));
            if (cells instanceof EmbeddedCells part) {
                bind(part.fields, ((StructVector) vectors.get(i)).getChildrenFromFields());
            }
        }
    }

    /// Says which object a row is of.
    void setId(int row, long reference) {
        if (hasIds) {
            ids.set(row, reference);
        }
    }

    /// Sets a row to one without an object.
    void setNull(int row) {
        if (hasIds) {
            ids.setNull(row);
        }
        all.forEach(column -> column.cells().setNull(row));
    }
}
