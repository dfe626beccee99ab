package dev.terrace.objects;

/// What bringing values to the tiers of their tags has done.
///
/// @param valuesMoved how many values lie on a better tier now, by the tags that their class has
/// @param bytesMoved bytes that these have
/// @param valuesLeft how many do not lie on the first tier of their tags, because there was no room
/// @param recordBytes bytes of fields that lie within old records in persistent memory, though
///   their tags do not name it any more: objects do not move, so these stay; a copy of such an
///   object lies where its tags say
public record RetierReport(long valuesMoved, long bytesMoved, long valuesLeft, long recordBytes) {}
