package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class EgoFacebookTest {
    private final Map<String, byte[]> files = new LinkedHashMap<>();

    private void put(String name, String text) {
        files.put(name, text.getBytes(StandardCharsets.US_ASCII));
    }

    /// Somebody is a friend in one network and the one around whom another is.
    @Test
    void networksAreOneGraphWithTheFeaturesOfAll() {
        put("facebook_combined.txt", "0 1\n1 2\n2 1\n");
        put("0.featnames", "0 location;id;anonymized feature 7\n1 gender;anonymized feature 77\n");
        put("0.feat", "1 1 0\n2 0 1\n");
        put("0.egofeat", "1 1\n");
        put(
                "1.featnames",
                "0 location;id;anonymized feature 9\n1 location;id;anonymized feature 7\n");
        put("1.feat", "2 1 0\n");
        put("1.egofeat", "1 0\n");
        SocialGraph graph = EgoFacebook.parse(files);
        assertEquals(2, graph.edges());
        assertArrayEquals(new int[] {0, 2}, graph.friends()[1]);
        int location = Category.LOCATION.first();
        int gender = Category.GENDER.first();
        assertArrayEquals(new int[] {location, gender}, graph.features()[0]);
        assertArrayEquals(new int[] {location, location + 1}, graph.features()[1]);
        assertArrayEquals(new int[] {location + 1, gender}, graph.features()[2]);
    }

    @Test
    void whatIsMissingIsNamed() {
        put("facebook_combined.txt", "0 1\n");
        put("0.featnames", "0 gender;anonymized feature 77\n");
        String message =
                assertThrows(IllegalArgumentException.class, () -> EgoFacebook.parse(files))
                        .getMessage();
        assertEquals("the archive has no 0.feat", message);
    }

    @Test
    void featuresThatNoCategoryHasRoomForAreRefused() {
        FeatureNumbers numbers = new FeatureNumbers();
        assertEquals(Category.GENDER.first(), numbers.of("3 gender;anonymized feature 77"));
        assertEquals(Category.GENDER.first() + 1, numbers.of("4 gender;anonymized feature 78"));
        assertEquals(Category.GENDER.first(), numbers.of("9 gender;anonymized feature 77"));
        String message =
                assertThrows(
                                IllegalArgumentException.class,
                                () -> numbers.of("5 gender;anonymized feature 79"))
                        .getMessage();
        assertTrue(message.contains("gender has more than 2 features"), message);
        assertThrows(
                IllegalArgumentException.class,
                () -> numbers.of("5 shoe_size;anonymized feature 1"));
        assertThrows(IllegalArgumentException.class, () -> numbers.of("5 gender"));
    }
}
