package dev.terrace.objects.processor;

import com.palantir.javapoet.ClassName;
import dev.terrace.objects.StorageTier;
import java.util.List;
import javax.lang.model.element.Element;
import javax.lang.model.element.TypeElement;

/// A tagged or embedded class as its author wrote it.
///
/// @param element its source
/// @param name its name
/// @param record whether it is a record: made by its constructor; else by a constructor without
///   arguments, then filled
/// @param fields the stored fields, those of superclasses first
record PlainClass(TypeElement element, ClassName name, boolean record, List<Field> fields) {

    /// A field of the class.
    ///
    /// @param element where to report what is wrong with it
    /// @param shape what it holds
    /// @param publicType whether all code may name its type
    /// @param tiers the tiers it is tagged with; empty if it has no tag
    /// @param apart whether its value is to have a buffer of its own
    /// @param formerly names it had before
    /// @param getter how it is read: what follows the object and a dot, such as `age` or `getAge()`
    /// @param setter how it is written: a field's or method's name; "" in a record
    /// @param bySetter whether the setter is a method
    record Field(
            String name,
            Element element,
            Shape shape,
            boolean publicType,
            List<StorageTier> tiers,
            boolean apart,
            List<String> formerly,
            String getter,
            String setter,
            boolean bySetter) {}
}
