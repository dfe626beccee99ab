package dev.terrace.objects.placement;

import dev.terrace.objects.Profile;
import java.util.List;

/// The name of a field and its class.
///
/// @param type the tagged class, fully qualified
/// @param field as the schema has it; those of an embedded object are `outer.inner`
public record FieldName(String type, String field) implements Comparable<FieldName> {
    /// The one field of a profile that a text names: `dev.terrace.guide.Person.home.street`, or as
    /// much of its end as is needed to tell it from others, `Person.age` or `age`.
    ///
    /// @throws IllegalArgumentException if it names none, or several
    public static FieldName in(Profile profile, String text) {
        List<FieldName> all =
                profile.classes().stream()
                        .flatMap(type ->
                                type.fields().stream()
                                        .map(field ->
                                                new FieldName(type.name(), field.field().name())))
                        .toList();
        List<FieldName> named =
                all.stream()
                        .filter(name ->
                                name.toString().equals(text)
                                        || name.toString().endsWith("." + text))
                        .toList();
        List<FieldName> whole =
                named.stream()
                        .filter(name ->
                                name.field.equals(text)
                                        || name.toString().equals(text)
                                        || endsAtClass(name, text))
                        .toList();
        List<FieldName> found = whole.isEmpty() ? named : whole;
        if (found.isEmpty()) {
            throw new IllegalArgumentException(
                    "the profile has no field " + text + "; it has " + all);
        }
        if (found.size() > 1) {
            throw new IllegalArgumentException(
                    text + " may be any of " + found + ": say more of its name");
        }
        return found.getFirst();
    }

    /// Whether a text is the simple name of the class, or more of it, and all of the field's.
    private static boolean endsAtClass(FieldName name, String text) {
        return text.endsWith("." + name.field)
                && ("." + name.type)
                        .endsWith("." + text.substring(0, text.length() - name.field.length() - 1));
    }

    @Override
    public int compareTo(FieldName other) {
        int byType = type.compareTo(other.type);
        return byType != 0 ? byType : field.compareTo(other.field);
    }

    @Override
    public String toString() {
        return type + "." + field;
    }
}
