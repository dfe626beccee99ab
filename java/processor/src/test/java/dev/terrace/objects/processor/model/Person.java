package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.DISK;
import static dev.terrace.objects.StorageTier.DRAM;
import static dev.terrace.objects.StorageTier.PMEM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Formerly;
import dev.terrace.objects.Recompute;
import dev.terrace.objects.Tier;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;

/// A class with a field of most kinds.
@Durable(formerly = "dev.terrace.objects.processor.model.Human")
public class Person {
    public enum Color {
        RED,
        GREEN
    }

    @Tier(PMEM)
    public int age;

    public boolean isMember;
    public char initial;
    public Integer luckyNumber;

    @Tier(DISK)
    @FixedLength(8)
    public byte[] image = new byte[8];

    @Tier({PMEM, DISK})
    @Formerly("label")
    public String name;

    public double[] marks;
    public Color color;

    @Embedded
    @Tier(DISK)
    public Address home;

    public Person boss;
    public List<Person> friends;
    public List<String> words;
    public Map<String, Long> counts;
    public Map<Integer, Person> byNumber;
    public SortedMap<Long, Person> byTime;
    public SortedMap<String, byte[]> blobs;

    @Tier(DRAM)
    @Recompute("score")
    public double score;

    @Tier(DRAM)
    public Map<String, List<Object>> cache;

    @Tier(DRAM)
    public int visits;

    public transient Object ignored;
    public static int created;

    static double score(DurablePerson person) {
        return person.getAge() * 2.0;
    }
}
