package dev.terrace.objects.processor;

import com.palantir.javapoet.ArrayTypeName;
import com.palantir.javapoet.ClassName;
import com.palantir.javapoet.CodeBlock;
import com.palantir.javapoet.MethodSpec;
import com.palantir.javapoet.ParameterSpec;
import com.palantir.javapoet.ParameterizedTypeName;
import com.palantir.javapoet.TypeName;
import javax.lang.model.element.Modifier;

/// Generates the getters and setters of slots.
final class Accessors {
    private static final CodeBlock VALUE = CodeBlock.of("value");

    private final ClassName plain;
    private final ClassName durable;
    private final Members members;

    /// @param plain the tagged class, which has the methods that recompute
    Accessors(ClassName plain, Members members) {
        this.plain = plain;
        durable = Names.durable(plain);
        this.members = members;
    }

    void add(Slot slot) {
        switch (slot.shape()) {
            case Shape.Volatile(var _, var type, var recompute) ->
                    addVolatile(slot, type, recompute);
            case Shape.Embedding(var inner) -> addEmbedding(slot, inner.name());
            case Shape.Text _ -> {
                addSimple(slot);
                addComparison(slot, ClassName.get(String.class));
            }
            case Shape.Primitive(var _, var type) -> {
                addSimple(slot);
                addBatch(slot, type, SlotCode.suffix(slot) + "s");
            }
            case Shape.PrimitiveArray(var _, var element, var length) -> {
                addSimple(slot);
                if (length > 0) {
                    addBatch(slot, element, SlotCode.suffix(slot));
                }
                addElements(slot, element, length);
                if (element.equals(TypeName.BYTE)) {
                    addComparison(slot, ArrayTypeName.of(element));
                }
            }
            default -> addSimple(slot);
        }
    }

    private void addSimple(Slot slot) {
        members.add(
                slot,
                method(slot, slot.getter(), "Field {@code $L}.", slot.schemaName())
                        .returns(SlotCode.type(slot))
                        .addStatement("return $L", SlotCode.read(slot))
                        .build());
        members.add(slot, setter(slot).addCode(writing(slot, SlotCode.write(slot, VALUE))).build());
    }

    private void addComparison(Slot slot, TypeName type) {
        members.add(
                slot,
                method(
                                slot,
                                slot.javaName() + "Equals",
                                "Whether field {@code $L} is equal to a value, which is compared"
                                        + " where it is stored.",
                                slot.schemaName())
                        .returns(TypeName.BOOLEAN)
                        .addParameter(SlotCode.nullable(type), "value")
                        .addStatement(
                                "return equals$L($L, value)", SlotCode.suffix(slot), slot.place())
                        .build());
    }

    /// A method that copies the values of a cursor's batch.
    private void addBatch(Slot slot, TypeName element, String suffix) {
        members.add(
                slot,
                method(
                                slot,
                                "copy" + slot.capitalized(),
                                "Copies field {@code $L} of all objects of a cursor's batch into"
                                        + " an array.\n\n"
                                        + "@param from the element of the array to begin with\n"
                                        + "@return how many elements were copied",
                                slot.schemaName())
                        .addModifiers(Modifier.STATIC)
                        .returns(TypeName.INT)
                        .addParameter(ParameterizedTypeName.get(Names.CURSOR, durable), "batch")
                        .addParameter(ArrayTypeName.of(element), "into")
                        .addParameter(TypeName.INT, "from")
                        .addStatement(
                                "return batch.copy$L($N, into, from)", suffix, slot.constant())
                        .build());
    }

    private static MethodSpec.Builder setter(Slot slot) {
        return method(slot, slot.setter(), "Sets field {@code $L}.", slot.schemaName())
                .addParameter(SlotCode.parameterType(slot), "value");
    }

    private void addElements(Slot slot, TypeName element, int length) {
        String of = SlotCode.elementSuffix(slot);
        members.add(
                slot,
                method(
                                slot,
                                "get" + slot.capitalized() + "Length",
                                "How many elements field {@code $L} has; -1 if it is null.",
                                slot.schemaName())
                        .returns(TypeName.INT)
                        .addStatement("return getLength($L)", slot.place())
                        .build());
        members.add(
                slot,
                method(
                                slot,
                                "copy" + slot.capitalized(),
                                "Copies the elements of field {@code $L} into an array, as many as"
                                        + " it takes.\n\n"
                                        + "@return how many were copied; -1 if the field is null",
                                slot.schemaName())
                        .returns(TypeName.INT)
                        .addParameter(ArrayTypeName.of(element), "into")
                        .addStatement(
                                "return copy$L($L, $L, into)",
                                SlotCode.suffix(slot),
                                slot.place(),
                                length)
                        .build());
        members.add(
                slot,
                method(
                                slot,
                                "get" + slot.capitalized(),
                                "An element of field {@code $L}.",
                                slot.schemaName())
                        .returns(element)
                        .addParameter(TypeName.INT, "index")
                        .addStatement("return get$LAt($L, $L, index)", of, slot.place(), length)
                        .build());
        members.add(
                slot,
                method(
                                slot,
                                "set" + slot.capitalized(),
                                "Sets an element of field {@code $L}.",
                                slot.schemaName())
                        .addParameter(TypeName.INT, "index")
                        .addParameter(element, "value")
                        .addCode(
                                writing(
                                        slot,
                                        CodeBlock.of(
                                                "set$LAt($L, index, value)", of, slot.place())))
                        .build());
    }

    private void addVolatile(Slot slot, TypeName type, String recompute) {
        boolean recomputed = !recompute.isEmpty();
        MethodSpec.Builder getter =
                method(
                        slot,
                        slot.getter(),
                        recomputed
                                ? "Field {@code $L}, in memory only: computed by $L when it is not"
                                        + " there."
                                : "Field {@code $L}, in memory only: $L after the pool was opened.",
                        slot.schemaName(),
                        recomputed ? recompute : SlotCode.zero(slot.shape()));
        getter.returns(SlotCode.type(slot));
        boolean cast = !type.equals(ClassName.OBJECT);
        CodeBlock held = cast ? CodeBlock.of("($T) value", type.box()) : VALUE;
        if (recomputed) {
            getter.addStatement("$T value = getVolatile($L)", ClassName.OBJECT, slot.place())
                    .beginControlFlow("if (value == null)")
                    .addStatement(
                            "value = recompute($L, () -> $T.$N(this))",
                            slot.place(),
                            plain,
                            recompute)
                    .endControlFlow()
                    .addStatement("return $L", held);
        } else if (type.isPrimitive()) {
            getter.addStatement("$T value = getVolatile($L)", ClassName.OBJECT, slot.place())
                    .addStatement(
                            "return value == null ? $L : $L", SlotCode.zero(slot.shape()), held);
        } else {
            CodeBlock read = SlotCode.read(slot);
            getter.addStatement(
                    cast
                            ? CodeBlock.of("return ($T) $L", type, read)
                            : CodeBlock.of("return $L", read));
        }
        members.add(slot, getter.build());
        members.add(slot, setter(slot).addCode(writing(slot, SlotCode.write(slot, VALUE))).build());
        if (recomputed) {
            members.add(
                    slot,
                    method(
                                    slot,
                                    "clear" + slot.capitalized(),
                                    "Forgets field {@code $L}: it is computed anew when it is next"
                                            + " read.",
                                    slot.schemaName())
                            .addStatement("setVolatile($L, null)", slot.place())
                            .build());
        }
    }

    private void addEmbedding(Slot slot, ClassName inner) {
        TypeName nullable = SlotCode.nullable(inner);
        members.add(
                slot,
                method(
                                slot,
                                slot.getter(),
                                "A copy of what is embedded as {@code $L}, or null.",
                                slot.schemaName())
                        .returns(nullable)
                        .addStatement(
                                "return $T.run(pool(), this::make$L)",
                                Names.COPY_OUT,
                                slot.capitalized())
                        .build());
        members.add(
                slot,
                method(
                                slot,
                                slot.setter(),
                                "Sets all fields of what is embedded as {@code $L}; null: to zero"
                                        + " and null.",
                                slot.schemaName())
                        .addParameter(ParameterSpec.builder(nullable, "value").build())
                        .addCode(
                                CodeBlock.builder()
                                        .add("$T.run(pool(), copies -> {\n$>", Names.COPY_IN)
                                        .add(
                                                slot.within().isEmpty()
                                                        ? CodeBlock.of("")
                                                        : CodeBlock.builder()
                                                                .beginControlFlow(
                                                                        "if (value != null)")
                                                                .add(presence(slot))
                                                                .endControlFlow()
                                                                .build())
                                        .addStatement(
                                                "setTogether(() -> store$L(value, copies))",
                                                slot.capitalized())
                                        .addStatement("return this")
                                        .add("$<});\n")
                                        .build())
                        .build());
        members.add(
                slot,
                method(
                                slot,
                                "has" + slot.capitalized(),
                                "Whether {@code $L} is not null.",
                                slot.schemaName())
                        .returns(TypeName.BOOLEAN)
                        .addStatement("return $L", SlotCode.read(slot))
                        .build());
    }

    /// Statements by which what the slot lies in is there; nothing if it lies in nothing.
    private static CodeBlock presence(Slot slot) {
        CodeBlock.Builder code = CodeBlock.builder();
        for (Slot outer : slot.within()) {
            code.addStatement(SlotCode.write(outer, CodeBlock.of("true")));
        }
        return code.build();
    }

    /// A statement that writes; within an embedded object that is not there, the object is there
    /// afterwards. That is one transaction, also where it is there: another thread may be clearing
    /// it.
    private static CodeBlock writing(Slot slot, CodeBlock write) {
        if (slot.within().isEmpty()) {
            return CodeBlock.builder().addStatement(write).build();
        }
        return CodeBlock.builder()
                .add("pool().transact(() -> {\n$>")
                .beginControlFlow("if (!$L)", SlotCode.read(slot.within().getLast()))
                .add(presence(slot))
                .endControlFlow()
                .addStatement(write)
                .add("$<});\n")
                .build();
    }

    /// A method as visible as the types that it shows.
    private static MethodSpec.Builder method(
            Slot slot, String name, String doc, Object... arguments) {
        MethodSpec.Builder method = MethodSpec.methodBuilder(name).addJavadoc(doc, arguments);
        return slot.publicType() ? method.addModifiers(Modifier.PUBLIC) : method;
    }
}
