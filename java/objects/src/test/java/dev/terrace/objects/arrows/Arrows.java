package dev.terrace.objects.arrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/// Which packages of this project use which others, line by line, as their sources say: by imports,
/// and by names that are written in full. Comments and texts in quotes do not count.
final class Arrows {
    private static final Pattern PACKAGE = Pattern.compile("(?m)^package ([\\w.]+);");
    private static final Pattern QUALIFIED = Pattern.compile("\\bdev\\.terrace(?:\\.\\w+)+");
    private static final Pattern TYPE = Pattern.compile("\\b[A-Z]\\w*\\b");

    private final List<Source> sources;
    private final Set<String> packages = new TreeSet<>();
    private final List<Arrow> arrows = new ArrayList<>();
    private final Map<String, Set<String>> uses = new TreeMap<>();

    /// A file, and its text.
    record Source(String file, String text) {
        String name() {
            String last = file.substring(file.lastIndexOf('/') + 1);
            return last.substring(0, last.length() - ".java".length());
        }

        String packageName() {
            Matcher found = PACKAGE.matcher(text);
            return found.find() ? found.group(1) : "";
        }
    }

    /// A line of a file of one package that uses another.
    record Arrow(String file, int line, String from, String to) {
        @Override
        public String toString() {
            return file + ":" + line + ": " + from + " uses " + to;
        }
    }

    Arrows(Collection<Source> all) {
        sources = all.stream().map(source -> new Source(source.file, bare(source.text))).toList();
        sources.stream()
                .map(Source::packageName)
                .filter(name -> !name.isEmpty())
                .forEach(packages::add);
        sources.forEach(this::addArrows);
    }

    /// The shipped sources of all Java modules below a directory.
    static List<Source> sources(Path directory) throws IOException {
        return sources(directory, "src/main/java");
    }

    /// The files in this directory of each module.
    static List<Source> sources(Path directory, String within) throws IOException {
        List<Source> found = new ArrayList<>();
        try (Stream<Path> modules = Files.list(directory)) {
            for (Path module : modules.sorted().toList()) {
                Path root = module.resolve(within);
                if (Files.isDirectory(root)) {
                    try (Stream<Path> files = Files.walk(root)) {
                        for (Path file :
                                files.filter(each -> each.toString().endsWith(".java")).toList()) {
                            found.add(
                                    new Source(
                                            directory.relativize(file).toString(),
                                            Files.readString(file)));
                        }
                    }
                }
            }
        }
        return found;
    }

    /// All packages.
    Set<String> packages() {
        return packages;
    }

    /// All uses of another package.
    List<Arrow> arrows() {
        return arrows;
    }

    private void addArrows(Source source) {
        String from = source.packageName();
        for (int line = 1; line <= lines(source).length; line++) {
            String text = lines(source)[line - 1];
            Matcher names = QUALIFIED.matcher(text);
            while (!text.startsWith("package ") && names.find()) {
                String to = packageOf(names.group());
                if (!to.isEmpty() && !to.equals(from) && !from.isEmpty()) {
                    arrows.add(new Arrow(source.file, line, from, to));
                    uses.computeIfAbsent(from, _ -> new LinkedHashSet<>()).add(to);
                }
            }
        }
    }

    private static String[] lines(Source source) {
        return source.text.split("\n", -1);
    }

    /// The longest beginning of a name that is a package.
    private String packageOf(String name) {
        String longest = name;
        while (!packages.contains(longest)) {
            int dot = longest.lastIndexOf('.');
            if (dot < 0) {
                return "";
            }
            longest = longest.substring(0, dot);
        }
        return longest;
    }

    /// The arrows that are part of a circle.
    List<String> circles() {
        Map<String, Set<String>> reached = new HashMap<>();
        packages.forEach(each -> reached.put(each, reachedFrom(each)));
        return arrows.stream()
                .filter(arrow -> reached.get(arrow.to).contains(arrow.from))
                .map(arrow -> arrow + ", which leads back to it")
                .toList();
    }

    private Set<String> reachedFrom(String start) {
        Set<String> reached = new HashSet<>();
        Deque<String> next = new ArrayDeque<>(List.of(start));
        while (!next.isEmpty()) {
            for (String to : uses.getOrDefault(next.pop(), Set.of())) {
                if (reached.add(to)) {
                    next.push(to);
                }
            }
        }
        return reached;
    }

    /// The arrows between floors, the lowest first, that do not point down.
    List<String> upward(List<String> floors) {
        return arrows.stream()
                .filter(arrow -> floors.contains(arrow.from) && floors.contains(arrow.to))
                .filter(arrow -> floors.indexOf(arrow.from) < floors.indexOf(arrow.to))
                .map(arrow -> arrow + ", which is above it")
                .toList();
    }

    /// The lines at which some types of a package use others of it: a floor within the package.
    List<String> upward(String within, Set<String> lower) {
        List<String> found = new ArrayList<>();
        Set<String> others = new HashSet<>();
        for (Source source : sources) {
            if (source.packageName().equals(within) && !lower.contains(source.name())) {
                others.add(source.name());
            }
        }
        for (Source source : sources) {
            if (source.packageName().equals(within) && lower.contains(source.name())) {
                String[] lines = lines(source);
                for (int line = 1; line <= lines.length; line++) {
                    Matcher types = TYPE.matcher(lines[line - 1]);
                    while (types.find()) {
                        if (others.contains(types.group())) {
                            found.add(
                                    source.file
                                            + ":"
                                            + line
                                            + ": "
                                            + source.name()
                                            + " uses "
                                            + types.group()
                                            + ", which is above it");
                        }
                    }
                }
            }
        }
        return found;
    }

    /// A source with nothing where comments and texts in quotes were; lines stay where they are.
    static String bare(String text) {
        StringBuilder bare = new StringBuilder();
        int at = 0;
        while (at < text.length()) {
            int end = endOfSkipped(text, at);
            for (int i = at; i < end; i++) {
                bare.append(text.charAt(i) == '\n' ? '\n' : ' ');
            }
            if (end == at) {
                bare.append(text.charAt(at++));
            } else {
                at = end;
            }
        }
        return bare.toString();
    }

    /// Where the comment or the text ends that begins there; the same place if none does.
    private static int endOfSkipped(String text, int at) {
        if (text.startsWith("//", at)) {
            return orEnd(text, text.indexOf('\n', at), 0);
        }
        if (text.startsWith("/*", at)) {
            return orEnd(text, text.indexOf("*/", at + 2), 2);
        }
        if (text.startsWith("\"\"\"", at)) {
            return orEnd(text, text.indexOf("\"\"\"", at + 3), 3);
        }
        char quote = text.charAt(at);
        if (quote != '"' && quote != '\'') {
            return at;
        }
        int end = at + 1;
        while (end < text.length() && text.charAt(end) != quote) {
            end += text.charAt(end) == '\\' ? 2 : 1;
        }
        return Math.min(text.length(), end + 1);
    }

    private static int orEnd(String text, int found, int more) {
        return found < 0 ? text.length() : found + more;
    }
}
