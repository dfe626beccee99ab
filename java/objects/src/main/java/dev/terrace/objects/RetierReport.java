package dev.terrace.objects;

/// The result of moving values to the tiers of their tags.
///
/// @param valuesMoved how many values lie on a better tier now, by the tags of their class
/// @param bytesMoved bytes of these values
/// @param valuesLeft how many values do not lie on the first tier of their tags, because it had no
///   room
/// @param recordBytes bytes of fields within old records in persistent memory whose tags no longer
///   name it: they stay because objects do not move; a copy of such an object lies where its tags
///   say
public record RetierReport(long valuesMoved, long bytesMoved, long valuesLeft, long recordBytes) {}
