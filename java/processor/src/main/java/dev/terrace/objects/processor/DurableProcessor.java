package dev.terrace.objects.processor;

import com.google.auto.common.GeneratedAnnotations;
import com.google.auto.common.MoreElements;
import com.google.auto.common.MoreTypes;
import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.JavaFile;
import dev.terrace.objects.Apart;
import dev.terrace.objects.Columnar;
import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Formerly;
import dev.terrace.objects.Recompute;
import dev.terrace.objects.Tier;
import java.io.IOException;
import java.lang.annotation.Annotation;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.annotation.processing.AbstractProcessor;
import javax.annotation.processing.FilerException;
import javax.annotation.processing.RoundEnvironment;
import javax.lang.model.SourceVersion;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;
import javax.lang.model.type.TypeKind;
import javax.lang.model.type.TypeMirror;
import javax.lang.model.util.Elements;
import org.jspecify.annotations.Nullable;

/// Generates a class for each that is tagged with [Durable].
///
/// A class waits for a later round while the type of one of its fields is not known, as another
/// processor may generate it. Methods are not looked at for that: those that recompute take the
/// class that is still to be generated.
public final class DurableProcessor extends AbstractProcessor {
    private static final List<Class<? extends Annotation>> FIELD_TAGS =
            List.of(
                    Tier.class,
                    Apart.class,
                    FixedLength.class,
                    Embedded.class,
                    Formerly.class,
                    Recompute.class);

    /// Fully qualified names of classes to look at again: elements do not outlive a round.
    private final Set<String> waiting = new LinkedHashSet<>();

    private @Nullable Problems problems;

    /// For the compiler, which finds the processor by its name.
    public DurableProcessor() {}

    @Override
    public Set<String> getSupportedAnnotationTypes() {
        return Stream.concat(Stream.of(Durable.class, Columnar.class), FIELD_TAGS.stream())
                .map(Class::getName)
                .collect(Collectors.toSet());
    }

    @Override
    public SourceVersion getSupportedSourceVersion() {
        return SourceVersion.latestSupported();
    }

    @Override
    public boolean process(Set<? extends TypeElement> annotations, RoundEnvironment round) {
        if (round.processingOver()) {
            // The compiler itself reports types that are still unknown now.
            return false;
        }
        Problems reporter = problems;
        if (reporter == null) {
            reporter = new Problems(processingEnv.getMessager());
            problems = reporter;
        }
        refuseStrayTags(round, reporter);
        round.getElementsAnnotatedWith(Durable.class)
                .forEach(each ->
                        waiting.add(MoreElements.asType(each).getQualifiedName().toString()));
        for (String name : List.copyOf(waiting)) {
            TypeElement type = processingEnv.getElementUtils().getTypeElement(name);
            if (type != null && isResolved(type, new HashSet<>())) {
                waiting.remove(name);
                generate(type, reporter);
            }
        }
        return false;
    }

    /// Tags on what is not stored: whoever wrote them meant something else.
    private static void refuseStrayTags(RoundEnvironment round, Problems problems) {
        for (Element type : round.getElementsAnnotatedWith(Columnar.class)) {
            boolean isDurable = MoreElements.isAnnotationPresent(type, Durable.class);
            if (!isDurable || type.getModifiers().contains(Modifier.ABSTRACT)) {
                problems.at(
                        type,
                        "@Columnar has no effect, because %s is %s",
                        type.getSimpleName(),
                        isDurable
                                ? "abstract: tag the classes that extend it"
                                : "not @Durable: tag it, or remove the tag");
            }
        }
        for (Class<? extends Annotation> tag : FIELD_TAGS) {
            for (Element field : round.getElementsAnnotatedWith(tag)) {
                Element owner = field.getEnclosingElement();
                if (field.getKind() != ElementKind.FIELD) {
                    continue;
                }
                // A record may be embedded without being tagged.
                if (!MoreElements.isAnnotationPresent(owner, Durable.class)
                        && owner.getKind() != ElementKind.RECORD) {
                    problems.at(
                            field,
                            "@%s has no effect, because %s is not @Durable: tag the class, or"
                                    + " remove the tag",
                            tag.getSimpleName(),
                            owner.getSimpleName());
                } else if (field.getModifiers().contains(Modifier.STATIC)
                        || field.getModifiers().contains(Modifier.TRANSIENT)) {
                    problems.at(
                            field,
                            "@%s has no effect, because static and transient fields are not stored:"
                                    + " remove the tag or the modifier",
                            tag.getSimpleName());
                }
            }
        }
    }

    /// Whether the types of all fields are known, those of embedded classes included.
    ///
    /// @param seen classes that have been looked at, as they may embed each other by mistake
    private static boolean isResolved(TypeElement type, Set<TypeElement> seen) {
        return !seen.add(type)
                || ClassReader.lineage(type).stream()
                        .allMatch(each ->
                                !Access.isUnresolved(each.getSuperclass())
                                        && ClassReader.storedFields(each).stream()
                                                .allMatch(field -> isResolved(field, seen)));
    }

    private static boolean isResolved(VariableElement field, Set<TypeElement> seen) {
        TypeMirror type = field.asType();
        if (Access.isUnresolved(type)) {
            return false;
        }
        return type.getKind() != TypeKind.DECLARED
                || !MoreElements.isAnnotationPresent(field, Embedded.class)
                || isResolved(MoreTypes.asTypeElement(type), seen);
    }

    private void generate(TypeElement type, Problems reporter) {
        Elements elements = processingEnv.getElementUtils();
        Access access =
                new Access(elements, processingEnv.getTypeUtils(), MoreElements.getPackage(type));
        PlainClass plain = new ClassReader(reporter, access).read(type);
        if (plain == null) {
            return;
        }
        // It is in the same jar as the tags.
        TypeElement base =
                Objects.requireNonNull(
                        elements.getTypeElement(Names.DURABLE_OBJECT.canonicalName()));
        int before = reporter.count();
        Layout layout = new Layout(plain, reporter);
        Members members = new Members(reporter, elements, access, base);
        Optional<ClassName> generated =
                GeneratedAnnotations.generatedAnnotation(elements, processingEnv.getSourceVersion())
                        .map(ClassName::get);
        JavaFile file = new Generator(plain, layout, members).generate(generated);
        // An abstract class has no objects of its own: its fields were only looked at.
        if (reporter.count() == before && !type.getModifiers().contains(Modifier.ABSTRACT)) {
            write(file, type, reporter);
        }
    }

    private void write(JavaFile file, TypeElement type, Problems reporter) {
        try {
            file.writeTo(processingEnv.getFiler());
        } catch (FilerException e) {
            reporter.at(
                    type,
                    "the class %s to be generated exists already: rename it or %s",
                    file.typeSpec().name(),
                    type.getSimpleName());
        } catch (IOException e) {
            reporter.at(
                    type,
                    "the class %s cannot be written: %s",
                    file.typeSpec().name(),
                    e.getMessage());
        }
    }
}
