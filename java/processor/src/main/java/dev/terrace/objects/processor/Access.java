package dev.terrace.objects.processor;

import com.google.auto.common.MoreElements;
import com.google.auto.common.MoreTypes;
import com.google.auto.common.Visibility;
import java.util.List;
import java.util.function.Predicate;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.ExecutableElement;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.PackageElement;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;
import javax.lang.model.type.DeclaredType;
import javax.lang.model.type.ExecutableType;
import javax.lang.model.type.TypeKind;
import javax.lang.model.type.TypeMirror;
import javax.lang.model.util.ElementFilter;
import javax.lang.model.util.Elements;
import javax.lang.model.util.Types;
import org.jspecify.annotations.Nullable;

/// The types that code in one package can access, and the code that reads and writes the fields of
/// a class.
final class Access {
    private final Elements elements;
    private final Types types;
    private final PackageElement from;

    /// @param from the package of the generated class
    Access(Elements elements, Types types, PackageElement from) {
        this.elements = elements;
        this.types = types;
        this.from = from;
    }

    /// Whether code in the package may name the type and all that it consists of.
    boolean isVisible(TypeMirror type) {
        return all(type, this::isVisible);
    }

    /// Whether all code may name the type and all that it consists of.
    static boolean isPublic(TypeMirror type) {
        return all(
                type, each -> Visibility.effectiveVisibilityOfElement(each) == Visibility.PUBLIC);
    }

    /// Whether code in the package may use the class or member by its own visibility and that of
    /// the classes around it.
    boolean isVisible(Element element) {
        Visibility visibility = Visibility.effectiveVisibilityOfElement(element);
        return visibility == Visibility.PUBLIC
                || visibility != Visibility.PRIVATE
                        && MoreElements.getPackage(element).equals(from);
    }

    private static boolean all(TypeMirror type, Predicate<TypeElement> test) {
        return switch (type.getKind()) {
            case ARRAY -> all(MoreTypes.asArray(type).getComponentType(), test);
            case DECLARED -> {
                DeclaredType declared = MoreTypes.asDeclared(type);
                yield test.test(MoreTypes.asTypeElement(declared))
                        && declared.getTypeArguments().stream().allMatch(each -> all(each, test));
            }
            case WILDCARD -> {
                TypeMirror extended = MoreTypes.asWildcard(type).getExtendsBound();
                TypeMirror bound =
                        extended != null ? extended : MoreTypes.asWildcard(type).getSuperBound();
                yield bound == null || all(bound, test);
            }
            default -> true;
        };
    }

    /// How the field of an object of `owner` is read, or null if it cannot be.
    @Nullable String getter(TypeElement owner, VariableElement field) {
        String name = field.getSimpleName().toString();
        if (isVisible((Element) field)) {
            return name;
        }
        String capitalized = Names.capitalized(name);
        for (String candidate : List.of("get" + capitalized, "is" + capitalized, name)) {
            if (hasMethod(owner, candidate, field.asType(), List.of())) {
                return candidate + "()";
            }
        }
        return null;
    }

    /// The field's own name if it can be written.
    @Nullable String writableField(VariableElement field) {
        boolean writable =
                isVisible((Element) field) && !field.getModifiers().contains(Modifier.FINAL);
        return writable ? field.getSimpleName().toString() : null;
    }

    /// The method that writes the field of an object of `owner`, or null if there is none.
    @Nullable String setterMethod(TypeElement owner, VariableElement field) {
        String name = field.getSimpleName().toString();
        for (String candidate :
                List.of(Names.setter(name, false), Names.setter(name, true), name)) {
            if (hasMethod(owner, candidate, null, List.of(field.asType()))) {
                return candidate;
            }
        }
        return null;
    }

    /// Whether `type` has a constructor without arguments that the package may call and that throws
    /// nothing it would have to catch.
    boolean hasEmptyConstructor(TypeElement type) {
        return ElementFilter.constructorsIn(type.getEnclosedElements()).stream()
                .anyMatch(each ->
                        each.getParameters().isEmpty()
                                && isVisible(each)
                                && each.getThrownTypes().isEmpty());
    }

    /// The static methods of a class or its superclasses that have this name.
    List<ExecutableElement> staticMethods(TypeElement owner, String name) {
        return ElementFilter.methodsIn(elements.getAllMembers(owner)).stream()
                .filter(each -> each.getSimpleName().contentEquals(name))
                .filter(each -> each.getModifiers().contains(Modifier.STATIC))
                .toList();
    }

    boolean isSame(TypeMirror one, TypeMirror other) {
        return types.isSameType(one, other);
    }

    TypeMirror erasure(TypeMirror type) {
        return types.erasure(type);
    }

    /// @param returned what the method returns, or null if that does not matter
    private boolean hasMethod(
            TypeElement owner,
            String name,
            @Nullable TypeMirror returned,
            List<TypeMirror> parameters) {
        DeclaredType ownerType = MoreTypes.asDeclared(owner.asType());
        for (ExecutableElement method : ElementFilter.methodsIn(elements.getAllMembers(owner))) {
            if (!method.getSimpleName().contentEquals(name)
                    || method.getModifiers().contains(Modifier.STATIC)
                    || method.getParameters().size() != parameters.size()
                    || !method.getThrownTypes().isEmpty()
                    || !isVisible(method)) {
                continue;
            }
            ExecutableType type = MoreTypes.asExecutable(types.asMemberOf(ownerType, method));
            if ((returned == null || isSame(type.getReturnType(), returned))
                    && (parameters.isEmpty()
                            || isSame(
                                    type.getParameterTypes().getFirst(), parameters.getFirst()))) {
                return true;
            }
        }
        return false;
    }

    /// Whether part of the type is not known yet: it may be generated in a later round, by this
    /// processor or another.
    static boolean isUnresolved(TypeMirror type) {
        return switch (type.getKind()) {
            case ERROR -> true;
            case ARRAY -> isUnresolved(MoreTypes.asArray(type).getComponentType());
            case DECLARED ->
                    MoreTypes.asDeclared(type).getTypeArguments().stream()
                            .anyMatch(Access::isUnresolved);
            default -> false;
        };
    }

    /// Whether the class is inside another and needs an object of it.
    static boolean isInner(TypeElement type) {
        return type.getNestingKind().isNested()
                && type.getKind() == ElementKind.CLASS
                && !type.getModifiers().contains(Modifier.STATIC);
    }

    /// The superclass, or null above a class that extends nothing.
    static @Nullable TypeElement superclass(TypeElement type) {
        TypeMirror above = type.getSuperclass();
        if (above.getKind() != TypeKind.DECLARED) {
            return null;
        }
        TypeElement element = MoreTypes.asTypeElement(above);
        String name = element.getQualifiedName().toString();
        return name.equals("java.lang.Object") || name.equals("java.lang.Record") ? null : element;
    }
}
