package dev.terrace.objects.processor;

import com.palantir.javapoet.CodeBlock;
import dev.terrace.objects.StorageTier;
import java.util.List;
import javax.lang.model.element.Element;

/// A field of the record: one of the tagged class, or of what it embeds, or whether an embedded
/// object is there.
///
/// @param index its place in the record's list of fields
/// @param schemaName its name there: `place`, `home.street`, and `home` for whether there is a home
/// @param javaName what its getters and setters are named after: `place`, `homeStreet`, `home`
/// @param constant the generated constant with its index; that with its offset has `_AT` behind it
/// @param element where to report what is wrong with it
/// @param within the presences of the embedded objects that it lies in, outermost first
record Slot(
        int index,
        String schemaName,
        String javaName,
        String constant,
        Element element,
        Shape shape,
        boolean publicType,
        List<StorageTier> tiers,
        List<String> formerly,
        List<Slot> within) {

    boolean isPrimitiveBoolean() {
        return shape instanceof Shape.Primitive(var _, var type)
                        && type.toString().equals("boolean")
                || shape instanceof Shape.Volatile(var _, var held, var _)
                        && held.toString().equals("boolean");
    }

    boolean isVolatile() {
        return shape instanceof Shape.Volatile;
    }

    String getter() {
        return Names.getter(javaName, isPrimitiveBoolean());
    }

    String setter() {
        return Names.setter(javaName, isPrimitiveBoolean());
    }

    /// The arguments that name the field to the runtime: `AGE, AGE_AT`, or `SCORE` of a volatile
    /// one.
    CodeBlock place() {
        return isVolatile() ? CodeBlock.of("$N", constant) : CodeBlock.of("$1N, $1N_AT", constant);
    }

    /// Its capitalized name, for names of methods.
    String capitalized() {
        return Names.capitalized(javaName);
    }
}
