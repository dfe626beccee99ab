package dev.terrace.objects.processor;

import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.CodeBlock;
import com.palantir.javapoet.MethodSpec;
import com.palantir.javapoet.ParameterSpec;
import com.palantir.javapoet.TypeName;
import dev.terrace.objects.processor.Layout.Level;
import dev.terrace.objects.processor.Layout.Member;
import java.util.List;
import javax.lang.model.element.Modifier;

/// Generates the private methods that copy plain objects in and out: one pair for the tagged class,
/// one for each that it embeds.
final class Copying {
    static final String STORE = "storeFields";
    static final String MAKE = "makePlain";
    static final String LOAD = "loadFields";

    private static final ParameterSpec COPIES_IN =
            ParameterSpec.builder(Names.COPY_IN, "copies").build();
    private static final ParameterSpec COPIES_OUT =
            ParameterSpec.builder(Names.COPY_OUT, "copies").build();

    private Copying() {}

    /// The methods of a level.
    static List<MethodSpec> methods(Level level) {
        // Embedded objects are filled where they are made, because no reference leads to them; so
        // are records.
        return level.isRoot() && !level.of().record()
                ? List.of(store(level), make(level), load(level))
                : List.of(store(level), make(level));
    }

    private static MethodSpec store(Level level) {
        ClassName plain = level.of().name();
        MethodSpec.Builder method =
                privately(level.isRoot() ? STORE : "store" + level.capitalized())
                        .addParameter(level.isRoot() ? plain : SlotCode.nullable(plain), "from")
                        .addParameter(COPIES_IN);
        level.presence()
                .ifPresent(presence -> {
                    if (!level.of().element().getModifiers().contains(Modifier.FINAL)) {
                        method.addStatement("$T.exactly($T.class, from)", Names.COPIER, plain);
                    }
                    method.addStatement(SlotCode.write(presence, CodeBlock.of("from != null")));
                });
        for (Member member : level.members()) {
            CodeBlock held = CodeBlock.of("from.$L", member.field().getter());
            CodeBlock value =
                    level.isRoot()
                            ? held
                            : CodeBlock.of(
                                    "from == null ? $L : $L",
                                    SlotCode.zero(member.slot().shape()),
                                    held);
            method.addStatement(
                    member.inner().isEmpty()
                            ? SlotCode.write(
                                    member.slot(), SlotCode.fromPlain(member.slot(), value))
                            : CodeBlock.of(
                                    "store$L($L, copies)", member.slot().capitalized(), value));
        }
        return method.build();
    }

    private static MethodSpec make(Level level) {
        ClassName plain = level.of().name();
        MethodSpec.Builder method =
                privately(level.isRoot() ? MAKE : "make" + level.capitalized())
                        .returns(level.isRoot() ? plain : SlotCode.nullable(plain))
                        .addParameter(COPIES_OUT);
        level.presence()
                .ifPresent(presence ->
                        method.beginControlFlow("if (!$L)", SlotCode.read(presence))
                                .addStatement("return null")
                                .endControlFlow());
        if (level.of().record()) {
            return method.addStatement(
                            "return new $T($L)",
                            plain,
                            level.members().stream()
                                    .map(each -> SlotCode.toPlain(each.slot()))
                                    .collect(CodeBlock.joining(",\n")))
                    .build();
        }
        if (level.isRoot()) {
            return method.addStatement("return new $T()", plain).build();
        }
        return method.addStatement("$1T made = new $1T()", plain)
                .addCode(assignments(level, "made"))
                .addStatement("return made")
                .build();
    }

    private static MethodSpec load(Level level) {
        return privately(LOAD)
                .addParameter(level.of().name(), "into")
                .addParameter(COPIES_OUT)
                .addCode(assignments(level, "into"))
                .build();
    }

    private static CodeBlock assignments(Level level, String object) {
        CodeBlock.Builder code = CodeBlock.builder();
        for (Member member : level.members()) {
            code.addStatement(
                    member.field().bySetter() ? "$L.$L($L)" : "$L.$L = $L",
                    object,
                    member.field().setter(),
                    SlotCode.toPlain(member.slot()));
        }
        return code.build();
    }

    private static MethodSpec.Builder privately(String name) {
        return MethodSpec.methodBuilder(name).addModifiers(Modifier.PRIVATE).returns(TypeName.VOID);
    }
}
