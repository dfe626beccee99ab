package dev.terrace.docs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// A page of documentation, as it is printed: what its readers copy out of it.
///
/// @param blocks in the order of the page
record Page(String text, List<Block> blocks) {
    private static final Pattern BLOCK =
            Pattern.compile(
                    "(?<before>[^\n]*)\n+```(?<language>\\w*)\n(?<text>.*?)^```$",
                    Pattern.DOTALL | Pattern.MULTILINE);
    private static final Pattern FILE = Pattern.compile("`([\\w./-]+)`:$");
    private static final Pattern SPAN =
            Pattern.compile(
                    "(?<!`)`((?:make|mvn|gradle|java|scripts/[\\w.-]+|terrace-objects|spark-submit)"
                            + " [^`]+)`(?!`)");

    /// @param file the file that the page says this is; empty if it is none
    record Block(String language, String file, String text) {}

    static Page read(Path path) throws IOException {
        String text = Files.readString(path);
        List<Block> blocks = new ArrayList<>();
        Matcher matcher = BLOCK.matcher(text);
        while (matcher.find()) {
            Matcher file = FILE.matcher(matcher.group("before"));
            blocks.add(
                    new Block(
                            matcher.group("language"),
                            file.find() ? file.group(1) : "",
                            matcher.group("text")));
        }
        long fences = text.lines().filter(line -> line.startsWith("```")).count();
        if (fences != 2L * blocks.size()) {
            throw new IOException(
                    path
                            + ": "
                            + fences
                            + " lines begin or end a block, and "
                            + blocks.size()
                            + " blocks were found");
        }
        return new Page(text, blocks);
    }

    /// The part of the page under a heading.
    Page under(String heading) {
        int from = text.indexOf("\n" + heading + "\n");
        String level = heading.substring(0, heading.indexOf(' ') + 1);
        int to = text.indexOf("\n" + level, from + 1);
        String part = text.substring(from, to < 0 ? text.length() : to);
        return new Page(part, blocks.stream().filter(block -> part.contains(block.text)).toList());
    }

    /// All commands for a shell, without comments; one that goes on behind a backslash is one line.
    List<String> commands() {
        List<String> commands = new ArrayList<>();
        for (Block block : blocks) {
            if (block.language.equals("sh")) {
                block.text
                        .replaceAll(" *\\\\\n *", " ")
                        .lines()
                        .map(line -> line.replaceFirst("\\s+#.*", ""))
                        .filter(line -> !line.isBlank())
                        .forEach(commands::add);
            }
        }
        return commands;
    }

    /// What the running text calls a command.
    List<String> spans() {
        String prose = text.replaceAll("(?ms)^```\\w*\n.*?^```$", "");
        return SPAN.matcher(prose)
                .results()
                .map(result -> result.group(1).replaceAll("\\s+", " "))
                .toList();
    }

    /// Writes what the page says are files into a directory.
    void writeFiles(Path directory) throws IOException {
        for (Block block : blocks) {
            if (!block.file.isEmpty()) {
                Path file = directory.resolve(block.file);
                Files.createDirectories(file.getParent());
                Files.writeString(file, block.text);
            }
        }
    }
}
