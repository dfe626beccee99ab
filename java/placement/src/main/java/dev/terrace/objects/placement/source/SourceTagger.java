package dev.terrace.objects.placement.source;

import com.sun.source.tree.VariableTree;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.Placement;
import dev.terrace.objects.placement.source.JavaSources.Field;
import dev.terrace.objects.placement.source.JavaSources.Type;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import javax.lang.model.element.Modifier;
import org.jspecify.annotations.Nullable;

/// Sets the `@Tier` of fields in Java sources.
///
/// Only what must change does: formatting, comments and other annotations stay. A tag that is there
/// says the wanted tiers afterwards, also if they are `PMEM` alone; where no tag is needed none is
/// added, and none is ever removed.
public final class SourceTagger {
    private final Map<Path, String> texts;
    private final JavaSources sources;

    /// The tiers that are wanted for a field.
    ///
    /// @param name in the schema, with its class
    /// @param tiers wanted
    /// @param inherited tiers that it has without a tag: those of what it is embedded in, or `PMEM`
    private record Wish(
            String name, Field field, List<StorageTier> tiers, List<StorageTier> inherited) {
        boolean isGranted() {
            List<StorageTier> declared = Tags.declared(field.tree());
            return tiers.equals(declared.isEmpty() ? inherited : declared);
        }
    }

    private SourceTagger(Map<Path, String> texts) {
        this.texts = texts;
        sources = new JavaSources(texts);
    }

    /// Reads sources.
    ///
    /// @param places files, and directories with all Java files below them
    /// @throws IOException if one cannot be read
    /// @throws TaggingException if there are none, one is no Java, or a class is there twice
    public static SourceTagger of(List<Path> places) throws IOException {
        Map<Path, String> texts = new TreeMap<>();
        for (Path place : places) {
            try (Stream<Path> files = Files.walk(place)) {
                for (Path file : files.filter(each -> each.toString().endsWith(".java")).toList()) {
                    try {
                        texts.put(file, Files.readString(file));
                    } catch (CharacterCodingException e) {
                        throw new IOException(file + " is not in UTF-8", e);
                    }
                }
            }
        }
        if (texts.isEmpty()) {
            throw new TaggingException(
                    List.of("there are no files whose names end in .java at " + places));
        }
        return new SourceTagger(texts);
    }

    /// The changes that give fields the tiers of a placement.
    ///
    /// @throws TaggingException if that cannot be; it says all that is in the way
    public Retagging retag(Placement placement) {
        return retag(placement.tiers());
    }

    /// The changes that give fields these tiers, by class and field, the best tier first.
    ///
    /// @throws TaggingException if that cannot be; it says all that is in the way
    public Retagging retag(Map<String, Map<String, List<StorageTier>>> tiers) {
        Map<Path, String> changed = new TreeMap<>(texts);
        changed.putAll(edited(tiers));
        Map<Path, Retagging.Change> changes = new TreeMap<>();
        changed.forEach((file, text) -> {
            if (!text.equals(texts.get(file))) {
                changes.put(file, new Retagging.Change(texts.get(file), text));
            }
        });
        if (!changes.isEmpty() && !new SourceTagger(changed).edited(tiers).isEmpty()) {
            throw new TaggingException(
                    List.of(
                            "the tags would not be what is wanted in "
                                    + changes.keySet()
                                    + ": set them by hand"));
        }
        return new Retagging(changes);
    }

    /// The files that change, as they are to be.
    private Map<Path, String> edited(Map<String, Map<String, List<StorageTier>>> tiers) {
        List<String> problems = new ArrayList<>();
        Map<VariableTree, List<Wish>> byField = new LinkedHashMap<>();
        new TreeMap<>(tiers)
                .forEach((typeName, fields) ->
                        new TreeMap<>(fields)
                                .forEach((name, wanted) -> {
                                    Wish wish = wish(typeName, name, wanted, problems);
                                    if (wish != null) {
                                        byField.computeIfAbsent(
                                                        wish.field.tree(), _ -> new ArrayList<>())
                                                .add(wish);
                                    }
                                }));
        byField.values().forEach(wishes -> checkConflict(wishes, problems));
        if (!problems.isEmpty()) {
            throw new TaggingException(problems);
        }
        return write(byField);
    }

    private Map<Path, String> write(Map<VariableTree, List<Wish>> byField) {
        Map<JavaSource, TagWriter> writers = new LinkedHashMap<>();
        List<VariableTree> done = new ArrayList<>();
        byField.forEach((tree, wishes) -> {
            Type type = wishes.getFirst().field.type();
            List<VariableTree> together = type.source().together(type.tree(), tree);
            boolean isGranted =
                    together.stream()
                            .allMatch(each ->
                                    byField.getOrDefault(each, List.of()).stream()
                                            .allMatch(Wish::isGranted));
            if (!isGranted && !done.contains(tree)) {
                done.addAll(together);
                Map<VariableTree, List<StorageTier>> wanted = new LinkedHashMap<>();
                together.forEach(
                        each -> wanted.put(each, tag(each, byField.getOrDefault(each, List.of()))));
                writers.computeIfAbsent(type.source(), source -> new TagWriter(source, sources))
                        .tag(type.tree(), wanted);
            }
        });
        Map<Path, String> edited = new TreeMap<>();
        writers.forEach((source, writer) ->
                edited.put(source.file(), Edit.apply(source.text(), writer.edits())));
        return edited;
    }

    /// The tiers for a field's tag; empty for no tag. They are the tag's present tiers if nothing
    /// changes.
    private static List<StorageTier> tag(VariableTree field, List<Wish> wishes) {
        return wishes.stream().allMatch(Wish::isGranted)
                ? Tags.declared(field)
                : wishes.getFirst().tiers;
    }

    private static void checkConflict(List<Wish> wishes, List<String> problems) {
        boolean isOne = wishes.stream().map(Wish::tiers).distinct().count() == 1;
        if (!isOne && !wishes.stream().allMatch(Wish::isGranted)) {
            problems.add(
                    wishes.getFirst().field.name()
                            + " has one tag, but is to be on different tiers: "
                            + String.join(
                                    ", ",
                                    wishes.stream()
                                            .map(wish -> wish.name + " on " + wish.tiers)
                                            .toList())
                            + ". Place them again with a rule for each, so that they agree");
        }
    }

    /// Finds a field, and what is in the way of a tag there; null if something is.
    private @Nullable Wish wish(
            String typeName, String name, List<StorageTier> wanted, List<String> problems) {
        String whole = typeName + "." + name;
        Type type = sources.type(typeName);
        if (type == null || !JavaSources.isDurable(type)) {
            problems.add(
                    type == null
                            ? "class "
                                    + typeName
                                    + " is not in these sources; tagged with @Durable are "
                                    + sources.durable()
                            : "class "
                                    + typeName
                                    + " in "
                                    + type.source().file()
                                    + " is not tagged with @Durable");
            return null;
        }
        List<StorageTier> inherited = List.of(StorageTier.PMEM);
        String[] parts = name.split("\\.");
        for (int i = 0; ; i++) {
            Field field = sources.field(type, parts[i]);
            if (field == null) {
                problems.add(
                        "field "
                                + whole
                                + ": "
                                + type.name()
                                + " in "
                                + type.source().file()
                                + " has no field "
                                + parts[i]);
                return null;
            }
            if (i == parts.length - 1) {
                String problem = problem(field.tree(), wanted);
                if (!problem.isEmpty()) {
                    problems.add(
                            "field "
                                    + whole
                                    + " in "
                                    + field.type().source().file()
                                    + " cannot be on "
                                    + wanted
                                    + ": "
                                    + problem);
                    return null;
                }
                return new Wish(whole, field, List.copyOf(wanted), inherited);
            }
            List<StorageTier> declared = Tags.declared(field.tree());
            inherited = declared.isEmpty() ? inherited : declared;
            type = sources.named(field.tree().getType(), field.type());
            if (type == null) {
                problems.add(
                        "field "
                                + whole
                                + ": the class "
                                + field.tree().getType()
                                + " of "
                                + field.name()
                                + " is not in these sources; name its file too");
                return null;
            }
        }
    }

    /// The reason why the annotation processor would refuse the tiers.
    private static String problem(VariableTree field, List<StorageTier> wanted) {
        boolean isDram = wanted.contains(StorageTier.DRAM);
        if (wanted.isEmpty() || EnumSet.copyOf(wanted).size() < wanted.size()) {
            return "give at least one tier, and each once";
        }
        if (isDram && wanted.size() > 1) {
            return "DRAM cannot be one of several tiers";
        }
        if (field.getModifiers().getFlags().contains(Modifier.STATIC)
                || field.getModifiers().getFlags().contains(Modifier.TRANSIENT)) {
            return "static and transient fields are not stored";
        }
        if (!isDram && Tags.has(field, "Recompute")) {
            return "@Recompute is for fields in DRAM. Remove it, and set the field where its value"
                    + " is made; or place it again with a rule that it lies on DRAM only";
        }
        if (isDram && Tags.has(field, "FixedLength")) {
            return "@FixedLength says how an array is stored, and a field in DRAM is not. Remove"
                    + " it, or place it again with a rule";
        }
        return isDram && Tags.has(field, "Embedded") ? "what is embedded is stored" : "";
    }
}
