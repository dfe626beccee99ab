package dev.terrace.objects.spark;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.io.Serial;
import java.io.Serializable;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;

/// A list of parts, as a manifest names it: a section of a file. Some of them may not count any
/// more.
///
/// @param file its name in `lists`
/// @param from the section's first byte
/// @param bytes how many it has
/// @param crc the CRC-32C of these bytes, 8 hexadecimal digits
/// @param parts how many it lists
/// @param without the numbers, from 0 on and in their order, of those that do not count
record PartList(
        String file,
        long from,
        int bytes,
        String crc,
        int parts,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) List<Integer> without)
        implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    PartList {
        // A list of which all parts count has no such member.
        without = without == null ? List.of() : List.copyOf(without);
    }

    /// How many parts count.
    int size() {
        return parts - without.size();
    }

    /// The numbers of the parts that count, in their order.
    List<Integer> numbers() {
        Set<Integer> gone = Set.copyOf(without);
        return IntStream.range(0, parts).boxed().filter(number -> !gone.contains(number)).toList();
    }

    /// The list, of which those parts count that still do.
    ///
    /// @param counting parts of it that have counted so far
    /// @param present what is there now
    PartList with(List<Part> counting, Set<PartState> present) {
        List<Integer> numbers = numbers();
        Set<Integer> gone = new TreeSet<>(without);
        for (int i = 0; i < numbers.size(); i++) {
            if (!present.contains(PartState.of(counting.get(i)))) {
                gone.add(numbers.get(i));
            }
        }
        return new PartList(file, from, bytes, crc, parts, List.copyOf(gone));
    }
}
