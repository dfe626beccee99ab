package dev.terrace.objects.evaluation.queries;

import java.util.List;
import java.util.SplittableRandom;

/// The words that values are made of, as TPC-H 4.2.2.13 lists them, and texts of them.
final class Words {
    static final List<String> REGIONS =
            List.of("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST");

    /// By their keys.
    static final List<Nation> NATIONS =
            List.of(
                    new Nation("ALGERIA", 0),
                    new Nation("ARGENTINA", 1),
                    new Nation("BRAZIL", 1),
                    new Nation("CANADA", 1),
                    new Nation("EGYPT", 4),
                    new Nation("ETHIOPIA", 0),
                    new Nation("FRANCE", 3),
                    new Nation("GERMANY", 3),
                    new Nation("INDIA", 2),
                    new Nation("INDONESIA", 2),
                    new Nation("IRAN", 4),
                    new Nation("IRAQ", 4),
                    new Nation("JAPAN", 2),
                    new Nation("JORDAN", 4),
                    new Nation("KENYA", 0),
                    new Nation("MOROCCO", 0),
                    new Nation("MOZAMBIQUE", 0),
                    new Nation("PERU", 1),
                    new Nation("CHINA", 2),
                    new Nation("ROMANIA", 3),
                    new Nation("SAUDI ARABIA", 4),
                    new Nation("VIETNAM", 2),
                    new Nation("RUSSIA", 3),
                    new Nation("UNITED KINGDOM", 3),
                    new Nation("UNITED STATES", 1));

    static final List<String> SEGMENTS = list("AUTOMOBILE BUILDING FURNITURE MACHINERY HOUSEHOLD");
    static final List<String> PRIORITIES =
            List.of("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW");
    static final List<String> INSTRUCTIONS =
            List.of("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN");
    static final List<String> MODES =
            List.of("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB");
    static final List<List<String>> TYPES =
            List.of(
                    list("STANDARD SMALL MEDIUM LARGE ECONOMY PROMO"),
                    list("ANODIZED BURNISHED PLATED POLISHED BRUSHED"),
                    list("TIN NICKEL BRASS STEEL COPPER"));
    static final List<List<String>> CONTAINERS =
            List.of(list("SM LG MED JUMBO WRAP"), list("CASE BOX BAG JAR PKG PACK CAN DRUM"));
    static final List<String> COLOURS =
            list(
                    "almond antique aquamarine azure beige bisque black blanched blue blush brown"
                            + " burlywood burnished chartreuse chiffon chocolate coral cornflower"
                            + " cornsilk cream cyan dark deep dim dodger drab firebrick floral"
                            + " forest frosted gainsboro ghost goldenrod green grey honeydew hot"
                            + " indian ivory khaki lace lavender lawn lemon light lime linen"
                            + " magenta maroon medium metallic midnight mint misty moccasin navajo"
                            + " navy olive orange orchid pale papaya peach peru pink plum powder"
                            + " puff purple red rose rosy royal saddle salmon sandy seashell sienna"
                            + " sky slate smoke snow spring steel tan thistle tomato turquoise"
                            + " violet wheat white yellow");

    /// Of comments.
    private static final List<String> COMMENT =
            list(
                    "furiously quickly slowly carefully blithely special pending unusual express"
                            + " final regular ironic even bold silent packages requests accounts"
                            + " deposits foxes ideas theodolites instructions dependencies excuses"
                            + " platelets asymptotes courts dolphins sleep wake are cajole haggle"
                            + " nag use boost affix detect integrate about above according to"
                            + " across after against along among around the");

    private static final String LETTERS =
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,";

    private Words() {}

    /// A nation.
    ///
    /// @param region its region's key
    record Nation(String name, long region) {}

    private static List<String> list(String words) {
        return List.of(words.split(" "));
    }

    /// One of them.
    static String any(List<String> words, SplittableRandom random) {
        return words.get(random.nextInt(words.size()));
    }

    /// One of each list, one behind the other.
    static String anyOfEach(List<List<String>> lists, SplittableRandom random) {
        return String.join(" ", lists.stream().map(list -> any(list, random)).toList());
    }

    /// Words, cut off at a length between these.
    static String comment(int least, int most, SplittableRandom random) {
        int length = random.nextInt(least, most + 1);
        StringBuilder text = new StringBuilder();
        while (text.length() < length) {
            text.append(any(COMMENT, random)).append(' ');
        }
        return text.substring(0, length);
    }

    /// Any letters, of a length between these.
    static String letters(int least, int most, SplittableRandom random) {
        StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(least, most + 1); i > 0; i--) {
            text.append(LETTERS.charAt(random.nextInt(LETTERS.length())));
        }
        return text.toString();
    }

    /// The number of a telephone in a nation.
    static String phone(long nation, SplittableRandom random) {
        return (nation + 10)
                + "-"
                + random.nextInt(100, 1000)
                + "-"
                + random.nextInt(100, 1000)
                + "-"
                + random.nextInt(1000, 10_000);
    }
}
