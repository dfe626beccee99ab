package dev.terrace.objects.processor;

import com.palantir.javapoet.AnnotationSpec;
import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.CodeBlock;
import com.palantir.javapoet.FieldSpec;
import com.palantir.javapoet.JavaFile;
import com.palantir.javapoet.MethodSpec;
import com.palantir.javapoet.ParameterizedTypeName;
import com.palantir.javapoet.TypeName;
import com.palantir.javapoet.TypeSpec;
import dev.terrace.objects.Columnar;
import dev.terrace.objects.Durable;
import dev.terrace.objects.StorageTier;
import java.util.List;
import java.util.Optional;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;

/// Writes the class for a tagged class.
final class Generator {
    private static final ClassName FIELD_SPEC = ClassName.get(dev.terrace.objects.FieldSpec.class);
    private static final ClassName FIELD_KIND = ClassName.get(dev.terrace.objects.FieldKind.class);
    private static final ClassName STORAGE_TIER = ClassName.get(StorageTier.class);

    private final Layout layout;
    private final Members members;
    private final TypeElement element;
    private final ClassName plain;
    private final ClassName durable;
    private final Modifier[] visibility;

    Generator(PlainClass type, Layout layout, Members members) {
        this.layout = layout;
        this.members = members;
        this.element = type.element();
        this.plain = type.name();
        this.durable = Names.durable(plain);
        this.visibility =
                Access.isPublic(element.asType())
                        ? new Modifier[] {Modifier.PUBLIC}
                        : new Modifier[0];
    }

    /// The source; only worth writing if no clash of names was reported.
    ///
    /// @param generated the annotation for generated classes, if the compiled code has one
    JavaFile generate(Optional<ClassName> generated) {
        TypeSpec.Builder type =
                TypeSpec.classBuilder(durable)
                        .addModifiers(visibility)
                        .addModifiers(Modifier.FINAL)
                        .superclass(
                                ownsCollections() ? Names.COLLECTION_OWNER : Names.DURABLE_OBJECT)
                        .addOriginatingElement(element)
                        .addJavadoc(
                                "A {@link $T} in a pool: getters and setters read and write the"
                                        + " pool in place.",
                                plain)
                        .addAnnotation(Names.NULL_MARKED)
                        .addAnnotation(suppressions());
        generated.ifPresent(name ->
                type.addAnnotation(
                        AnnotationSpec.builder(name)
                                .addMember("value", "$S", DurableProcessor.class.getName())
                                .build()));
        addConstants(type);
        addWholeObject();
        Accessors accessors = new Accessors(plain, members);
        for (Slot slot : layout.slots()) {
            accessors.add(slot);
        }
        layout.root().all().flatMap(level -> Copying.methods(level).stream()).forEach(members::add);
        type.addMethods(members.methods());
        Lazy.generate(layout.slots()).ifPresent(type::addType);
        return JavaFile.builder(durable.packageName(), type.build()).indent("    ").build();
    }

    /// The tagged class may be deprecated, or keep what it likes in DRAM; neither is the generated
    /// code's to warn of.
    private AnnotationSpec suppressions() {
        AnnotationSpec.Builder suppress =
                AnnotationSpec.builder(SuppressWarnings.class)
                        .addMember("value", "$S", "deprecation")
                        .addMember("value", "$S", "removal");
        if (layout.slots().stream().anyMatch(Slot::isVolatile)) {
            suppress.addMember("value", "$S", "rawtypes").addMember("value", "$S", "unchecked");
        }
        return suppress.build();
    }

    private boolean ownsCollections() {
        return layout.slots().stream()
                .anyMatch(each ->
                        each.shape() instanceof Shape.Sequence
                                || each.shape() instanceof Shape.Elements
                                || each.shape() instanceof Shape.Mapping);
    }

    private void addConstants(TypeSpec.Builder type) {
        type.addField(
                FieldSpec.builder(
                                ParameterizedTypeName.get(Names.OBJECT_TYPE, durable),
                                "TYPE",
                                visibility)
                        .addModifiers(Modifier.STATIC, Modifier.FINAL)
                        .addJavadoc("The type's name and fields.")
                        .initializer(objectType())
                        .build());
        CodeBlock loader =
                layout.root().of().record()
                        ? CodeBlock.of("(from, into, copies) -> {}")
                        : CodeBlock.of("$T::$N", durable, Copying.LOAD);
        type.addField(
                FieldSpec.builder(
                                ParameterizedTypeName.get(Names.COPIER, plain, durable),
                                "COPIER",
                                visibility)
                        .addModifiers(Modifier.STATIC, Modifier.FINAL)
                        .addJavadoc("Copies objects in and out.")
                        .initializer(
                                "$T.of($T.class, TYPE, $T::$N, $T::$N, $L)",
                                Names.COPIER,
                                plain,
                                durable,
                                Copying.STORE,
                                durable,
                                Copying.MAKE,
                                loader)
                        .build());
        for (Slot slot : layout.slots()) {
            type.addField(constant(slot.constant(), CodeBlock.of("$L", slot.index())));
            if (!slot.isVolatile()) {
                type.addField(
                        constant(
                                slot.constant() + "_AT",
                                CodeBlock.of("TYPE.offset($N)", slot.constant())));
            }
        }
    }

    private static FieldSpec constant(String name, CodeBlock value) {
        return FieldSpec.builder(
                        TypeName.INT, name, Modifier.PRIVATE, Modifier.STATIC, Modifier.FINAL)
                .initializer(value)
                .build();
    }

    private CodeBlock objectType() {
        CodeBlock formerly =
                List.of(element.getAnnotation(Durable.class).formerly()).stream()
                        .map(each -> CodeBlock.of("$S", each))
                        .collect(CodeBlock.joining(", "));
        CodeBlock.Builder code =
                CodeBlock.builder()
                        .add(
                                "$T.$L($>$>\n$S,\n$T.class,\n$T::new,\n$T.of($L)",
                                Names.OBJECT_TYPE,
                                element.getAnnotation(Columnar.class) == null ? "of" : "columnar",
                                plain.canonicalName(),
                                durable,
                                durable,
                                List.class,
                                formerly);
        for (Slot slot : layout.slots()) {
            code.add(",\n$L", fieldSpec(slot));
        }
        return code.add(")$<$<").build();
    }

    private CodeBlock fieldSpec(Slot slot) {
        CodeBlock.Builder spec = CodeBlock.builder();
        if (slot.shape() instanceof Shape.Converted shape) {
            spec.add("$L.field($S)", SlotCode.valueType(shape), slot.schemaName());
        } else {
            spec.add(
                    "$T.of($S, $T.$L)",
                    FIELD_SPEC,
                    slot.schemaName(),
                    FIELD_KIND,
                    slot.shape().kind());
        }
        switch (slot.shape()) {
            case Shape.Primitive _, Shape.Embedding _, Shape.Converted _ -> {
                // Never null, and of no class; or told by its ValueType.
            }
            case Shape.PrimitiveArray(var _, var _, int length) when length > 0 ->
                    spec.add(".ofLength($L)", length);
            case Shape.Enumeration(var name, var constants) ->
                    spec.add(
                            ".among($S$L).orNull()",
                            name.canonicalName(),
                            constants.stream()
                                    .map(each -> CodeBlock.of(", $S", each))
                                    .collect(CodeBlock.joining("")));
            case Shape.Reference(var target, var _) ->
                    spec.add(".to($S).orNull()", target.canonicalName());
            case Shape.Sequence(var item) ->
                    spec.add(".to($S).orNull()", "java.util.List<" + item.plain() + ">");
            case Shape.Elements(var item, boolean sorted) ->
                    spec.add(
                            ".to($S).orNull()",
                            "java.util.%s<%s>"
                                    .formatted(sorted ? "SortedSet" : "Set", item.plain()));
            case Shape.Mapping(var key, var value, boolean sorted) ->
                    spec.add(
                            ".to($S).orNull()",
                            "java.util.%s<%s, %s>"
                                    .formatted(
                                            sorted ? "SortedMap" : "Map",
                                            key.plain(),
                                            value.plain()));
            case Shape.Volatile(var _, var type, var _) ->
                    spec.add(type.isPrimitive() ? "" : ".orNull()");
            default -> spec.add(".orNull()");
        }
        if (!slot.tiers().equals(List.of(StorageTier.PMEM))) {
            spec.add(
                    ".on($L)",
                    slot.tiers().stream()
                            .map(each -> CodeBlock.of("$T.$L", STORAGE_TIER, each))
                            .collect(CodeBlock.joining(", ")));
        }
        if (layout.isGrouped(slot)) {
            spec.add(".inGroup()");
        }
        if (!slot.formerly().isEmpty()) {
            spec.add(
                    ".formerly($L)",
                    slot.formerly().stream()
                            .map(each -> CodeBlock.of("$S", each))
                            .collect(CodeBlock.joining(", ")));
        }
        return spec.build();
    }

    /// The methods for the object as a whole.
    private void addWholeObject() {
        members.add(
                MethodSpec.constructorBuilder()
                        .addModifiers(visibility)
                        .addJavadoc(
                                "A handle that leads to no object yet; {@link #create} and {@link"
                                        + " #of} give one that does.")
                        .build());
        members.add(
                whole("create", "A new object with all fields zero or null.")
                        .addModifiers(Modifier.STATIC)
                        .returns(durable)
                        .addParameter(Names.POOL, "pool")
                        .addStatement("return pool.create(TYPE)")
                        .build());
        members.add(
                whole(
                                "of",
                                "A new object with what another holds, and all that it leads to, in"
                                        + " one transaction.")
                        .addModifiers(Modifier.STATIC)
                        .returns(durable)
                        .addParameter(Names.POOL, "pool")
                        .addParameter(plain, "from")
                        .addStatement("return COPIER.create(pool, from)")
                        .build());
        members.add(
                whole(
                                "to" + plain.simpleName(),
                                "A plain object with what this one holds, and all that it leads"
                                        + " to.")
                        .returns(plain)
                        .addStatement("return COPIER.load(this)")
                        .build());
        members.add(
                whole("set", "Sets all fields to what another holds, in one transaction.")
                        .addParameter(plain, "from")
                        .addStatement("COPIER.set(this, from)")
                        .build());
        members.add(
                whole(
                                "contentEquals",
                                "Whether all stored fields of another object hold the same:"
                                    + " references lead to the same objects, and collections are"
                                    + " equal.")
                        .returns(TypeName.BOOLEAN)
                        .addParameter(durable, "other")
                        .addStatement(
                                "return $L",
                                stored().isEmpty()
                                        ? CodeBlock.of("true")
                                        : stored().stream()
                                                .map(SlotCode::same)
                                                .collect(CodeBlock.joining("\n&& ")))
                        .build());
        members.add(
                whole(
                                "toString",
                                "The stored fields; of arrays the length, of objects the class."
                                        + " What cannot be read is said to be so.")
                        .addAnnotation(Override.class)
                        .returns(String.class)
                        .addStatement("return $L", text())
                        .build());
    }

    private MethodSpec.Builder whole(String name, String doc) {
        // toString has to be public also in a class that is not.
        MethodSpec.Builder method = MethodSpec.methodBuilder(name).addJavadoc(doc);
        return name.equals("toString")
                ? method.addModifiers(Modifier.PUBLIC)
                : method.addModifiers(visibility);
    }

    private List<Slot> stored() {
        return layout.slots().stream().filter(each -> !each.isVolatile()).toList();
    }

    private CodeBlock text() {
        List<Slot> stored = stored();
        CodeBlock.Builder text =
                CodeBlock.builder()
                        .add(
                                "describe($S, $T.of($L), field -> switch (field) {$>\n",
                                durable.simpleName(),
                                List.class,
                                stored.stream()
                                        .map(each -> CodeBlock.of("$S", each.schemaName()))
                                        .collect(CodeBlock.joining(", ")));
        for (int i = 0; i < stored.size(); i++) {
            text.add("case $L -> $L;\n", i, text(stored.get(i)));
        }
        return text.add("default -> \"\";$<\n})").build();
    }

    private static CodeBlock text(Slot slot) {
        return switch (slot.shape()) {
            case Shape.PrimitiveArray(var _, var element, var _) ->
                    CodeBlock.of(
                            "(getLength($1L) < 0 ? \"null\" : \"$2T[\" + getLength($1L) + \"]\")",
                            slot.place(),
                            element);
            case Shape.Reference(var target, var _) ->
                    CodeBlock.of(
                            "($L == null ? \"null\" : $S)",
                            SlotCode.read(slot),
                            target.simpleName());
            case Shape.Sequence _ ->
                    CodeBlock.of("($L == null ? \"null\" : \"List\")", SlotCode.read(slot));
            case Shape.Elements _ ->
                    CodeBlock.of("($L == null ? \"null\" : \"Set\")", SlotCode.read(slot));
            case Shape.Mapping _ ->
                    CodeBlock.of("($L == null ? \"null\" : \"Map\")", SlotCode.read(slot));
            default -> SlotCode.read(slot);
        };
    }
}
