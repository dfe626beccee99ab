package dev.terrace.objects.processor;

import com.google.auto.common.MoreElements;
import com.google.auto.common.MoreTypes;
import com.palantir.javapoet.ClassName;
import dev.terrace.objects.Durable;
import dev.terrace.objects.processor.PlainClass.Field;
import dev.terrace.objects.processor.TagReader.Tags;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.stream.Collectors;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.ExecutableElement;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;
import javax.lang.model.type.TypeKind;
import javax.lang.model.type.TypeMirror;
import javax.lang.model.util.ElementFilter;
import org.jspecify.annotations.Nullable;

/// Reads a tagged class, with its superclasses and what it embeds.
final class ClassReader {
    private final Problems problems;
    private final Access access;
    private final TagReader tagReader;
    private final ShapeReader shapeReader;

    /// The tagged class and what is being embedded in it just now: outermost first.
    private final Deque<TypeElement> path = new ArrayDeque<>();

    ClassReader(Problems problems, Access access) {
        this.problems = problems;
        this.access = access;
        this.tagReader = new TagReader(problems);
        this.shapeReader = new ShapeReader(problems, access);
    }

    /// The tagged class, or null if something is wrong with it, which has been reported then.
    @Nullable PlainClass read(TypeElement type) {
        int before = problems.count();
        ClassChecks.checkTagged(type, problems, access);
        return problems.count() == before ? readFields(type) : null;
    }

    private @Nullable PlainClass readFields(TypeElement type) {
        int before = problems.count();
        boolean record = type.getKind() == ElementKind.RECORD;
        path.addLast(type);
        List<Field> fields = new ArrayList<>();
        for (TypeElement declaring : lineage(type)) {
            for (VariableElement field : storedFields(declaring)) {
                Field read = readField(type, field, record);
                if (read != null) {
                    fields.add(read);
                }
            }
        }
        path.removeLast();
        return problems.count() == before
                ? new PlainClass(type, ClassName.get(type), record, fields)
                : null;
    }

    /// The class and its superclasses, the highest first.
    static List<TypeElement> lineage(TypeElement type) {
        Deque<TypeElement> lineage = new ArrayDeque<>();
        for (TypeElement each = type; each != null; each = Access.superclass(each)) {
            lineage.addFirst(each);
        }
        return List.copyOf(lineage);
    }

    /// The fields that are neither static nor transient, in the order of the source.
    static List<VariableElement> storedFields(TypeElement type) {
        return ElementFilter.fieldsIn(type.getEnclosedElements()).stream()
                .filter(each -> !each.getModifiers().contains(Modifier.STATIC))
                .filter(each -> !each.getModifiers().contains(Modifier.TRANSIENT))
                .toList();
    }

    private @Nullable Field readField(TypeElement owner, VariableElement field, boolean record) {
        Tags tags = tagReader.read(field);
        if (tags == null) {
            return null;
        }
        TypeMirror type = field.asType();
        Shape shape =
                tags.inDram()
                        ? shapeReader.readVolatile(field, type, tags)
                        : tags.embedded()
                                ? embedding(field, type, tags)
                                : shapeReader.read(field, type, tags);
        if (shape == null) {
            return null;
        }
        if (tags.recompute() != null && !owner.getModifiers().contains(Modifier.ABSTRACT)) {
            checkRecompute(owner, field, tags.recompute());
        }
        String name = field.getSimpleName().toString();
        String getter = record ? name + "()" : access.getter(owner, field);
        String direct = record ? "" : access.writableField(field);
        String setter = direct != null ? direct : access.setterMethod(owner, field);
        if (getter == null || setter == null) {
            reportAccess(field, getter == null, setter == null);
            return null;
        }
        return new Field(
                name,
                field,
                shape,
                Access.isPublic(type),
                tags.tiers(),
                tags.apart(),
                tags.formerly(),
                getter,
                setter,
                direct == null);
    }

    private void reportAccess(VariableElement field, boolean unreadable, boolean unwritable) {
        String name = field.getSimpleName().toString();
        String capitalized = Names.capitalized(name);
        if (field.getModifiers().contains(Modifier.FINAL) && !unreadable) {
            problems.at(
                    field,
                    "%1$s is final, so that it cannot be set in an object made by the constructor"
                            + " without arguments: make the class a record, or %1$s not final, or"
                            + " transient if it is not to be stored",
                    name);
            return;
        }
        List<String> missing = new ArrayList<>();
        if (unreadable) {
            missing.add("get" + capitalized + "()");
        }
        if (unwritable) {
            missing.add("set" + capitalized + "(%s)".formatted(field.asType()));
        }
        problems.at(
                field,
                "the generated class cannot %s %s: make it package-private, or add %s",
                unreadable ? "read" : "write",
                name,
                String.join(" and ", missing));
    }

    private @Nullable Shape embedding(VariableElement field, TypeMirror type, Tags tags) {
        if (tags.fixedLength() != null) {
            problems.at(
                    field,
                    "@FixedLength is for arrays of primitives, and this is a %s: remove the tag",
                    type);
            return null;
        }
        TypeElement inner =
                type.getKind() == TypeKind.DECLARED ? MoreTypes.asTypeElement(type) : null;
        boolean known =
                inner != null
                        && (inner.getKind() == ElementKind.RECORD
                                || MoreElements.isAnnotationPresent(inner, Durable.class));
        if (inner == null || !known) {
            problems.at(
                    field,
                    "@Embedded is for objects of @Durable classes and records, and this is a %s: "
                            + "remove the tag, or tag the class with @Durable",
                    type);
            return null;
        }
        if (path.contains(inner)) {
            problems.at(
                    field,
                    "%s would lie within itself: remove @Embedded, so that the field is a"
                            + " reference",
                    path.stream()
                                    .map(each -> each.getSimpleName().toString())
                                    .collect(Collectors.joining(" > "))
                            + " > "
                            + inner.getSimpleName());
            return null;
        }
        if (!ClassChecks.checkEmbedded(field, inner, problems, access)) {
            return null;
        }
        PlainClass read = readFields(inner);
        if (read == null) {
            problems.at(
                    field,
                    "%s cannot be embedded because of the errors in it",
                    inner.getSimpleName());
            return null;
        }
        return refuseRecomputed(field, read) ? null : new Shape.Embedding(read);
    }

    /// A method that recomputes takes a durable object of its own class, and what is embedded is
    /// none.
    private boolean refuseRecomputed(Element field, PlainClass inner) {
        for (Field each : inner.fields()) {
            if (each.shape() instanceof Shape.Volatile value && !value.recompute().isEmpty()) {
                problems.at(
                        field,
                        "%1$s cannot be embedded, because its field %2$s is recomputed from an"
                                + " object of its own: remove @Embedded here, or @Recompute there",
                        inner.name().simpleName(),
                        each.name());
                return true;
            }
        }
        return false;
    }

    private void checkRecompute(TypeElement owner, VariableElement field, String name) {
        if (path.size() > 1) {
            // Embedded: refused by the one that embeds.
            return;
        }
        String durable = Names.durable(owner).simpleName();
        String wanted = "static %s %s(%s)".formatted(field.asType(), name, durable);
        List<ExecutableElement> candidates = access.staticMethods(owner, name);
        if (candidates.stream()
                .anyMatch(each -> recomputes(each, field.asType(), Names.durable(owner)))) {
            return;
        }
        // An inherited field needs a method for this class: nothing is wrong where the field is.
        problems.at(
                field.getEnclosingElement().equals(owner) ? field : owner,
                candidates.isEmpty()
                        ? "%3$s is recomputed, but %2$s has no such method: add %1$s"
                        : "%3$s is recomputed, but the method has to be %1$s, not private and"
                                + " without checked exceptions",
                wanted,
                owner.getSimpleName(),
                field);
    }

    /// The generated class may not exist yet: then its name is all that can be compared.
    private boolean recomputes(ExecutableElement method, TypeMirror type, ClassName durable) {
        if (method.getParameters().size() != 1
                || !method.getThrownTypes().isEmpty()
                || !access.isVisible(method)) {
            return false;
        }
        String parameter = method.getParameters().getFirst().asType().toString();
        return access.isSame(method.getReturnType(), type)
                && (parameter.equals(durable.simpleName())
                        || parameter.equals(durable.canonicalName()));
    }
}
