package dev.terrace.objects.processor;

import com.google.auto.common.MoreElements;
import dev.terrace.objects.Durable;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;

/// Checks which classes can be tagged, and which can be embedded.
final class ClassChecks {
    private ClassChecks() {}

    /// Reports why a class that is tagged cannot be.
    static void checkTagged(TypeElement type, Problems problems, Access access) {
        String name = type.getSimpleName().toString();
        if (type.getKind() != ElementKind.CLASS && type.getKind() != ElementKind.RECORD) {
            problems.at(
                    type,
                    "only classes and records can be @Durable: %s",
                    type.getKind() == ElementKind.ENUM
                            ? "an enum's constants are stored as they are, remove the tag"
                            : "an interface has no fields to store, tag the classes that implement"
                                    + " it");
            return;
        }
        checkNames(type, problems);
        if (!type.getTypeParameters().isEmpty()) {
            problems.at(
                    type,
                    "a generic class cannot be @Durable, because what its fields hold is not known:"
                            + " write a class for each type that is to be stored");
        }
        if (Access.isInner(type)) {
            problems.at(
                    type,
                    "%s needs an object of the class around it, which is not stored: make it"
                            + " static",
                    name);
        }
        if (!access.isVisible((Element) type)) {
            problems.at(
                    type,
                    "the generated class cannot see %s: a private class cannot be @Durable, nor one"
                            + " inside a private class",
                    name);
        }
        checkSuperclasses(type, problems);
        if (!type.getModifiers().contains(Modifier.ABSTRACT)) {
            checkConstructor(type, type, problems, access);
        }
    }

    private static void checkNames(TypeElement type, Problems problems) {
        String name = type.getSimpleName().toString();
        if (name.matches("Durable(\\p{Lu}.*)?")) {
            problems.at(
                    type,
                    "%s is what a generated class would be called: choose a name that does not"
                            + " begin with Durable",
                    name);
        }
        for (String before : type.getAnnotation(Durable.class).formerly()) {
            if (before.isBlank() || type.getQualifiedName().contentEquals(before)) {
                problems.at(
                        type, "formerly is what the class was called before, not \"%s\"", before);
            }
        }
    }

    private static void checkSuperclasses(TypeElement type, Problems problems) {
        for (TypeElement above = Access.superclass(type);
                above != null;
                above = Access.superclass(above)) {
            if (MoreElements.isAnnotationPresent(above, Durable.class)) {
                continue;
            }
            for (VariableElement field : ClassReader.storedFields(above)) {
                problems.at(
                        type,
                        "the superclass %1$s has the field %2$s, but is not @Durable: tag %1$s, or"
                                + " make %2$s transient",
                        above.getSimpleName(),
                        field.getSimpleName());
                return;
            }
        }
    }

    /// Whether objects of the class can lie within another's record; else reports why not.
    static boolean checkEmbedded(
            Element field, TypeElement inner, Problems problems, Access access) {
        int before = problems.count();
        String name = inner.getSimpleName().toString();
        if (!access.isVisible((Element) inner)) {
            problems.at(
                    field,
                    "the generated class cannot see %s: make it package-private or public",
                    name);
        } else if (!inner.getTypeParameters().isEmpty()) {
            problems.at(
                    field,
                    "%s is generic, so that what its fields hold is not known: use a class that is"
                            + " not",
                    name);
        } else if (inner.getModifiers().contains(Modifier.ABSTRACT)
                || inner.getKind() == ElementKind.INTERFACE) {
            problems.at(
                    field,
                    "%s is abstract, so that no object of it can lie within this one: use a"
                            + " concrete class",
                    name);
        } else if (Access.isInner(inner)) {
            problems.at(
                    field,
                    "%s needs an object of the class around it, which is not stored: make it"
                            + " static",
                    name);
        } else {
            checkSuperclasses(inner, problems);
            checkConstructor(field, inner, problems, access);
        }
        return problems.count() == before;
    }

    private static void checkConstructor(
            Element at, TypeElement type, Problems problems, Access access) {
        if (type.getKind() == ElementKind.CLASS && !access.hasEmptyConstructor(type)) {
            problems.at(
                    at,
                    "%s needs a constructor without arguments that is not private and throws"
                            + " nothing checked: add %s() {}, or make the class a record",
                    type.getSimpleName(),
                    type.getSimpleName());
        }
    }
}
