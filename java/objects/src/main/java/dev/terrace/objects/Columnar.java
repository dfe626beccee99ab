package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// Keeps the values of each field of a [Durable] class side by side, for as many objects as share a
/// chunk of 64 KiB. A walk over one field of many objects then reads that field's bytes only, and a
/// batch copies them at once. Without this tag, the fields of each object lie side by side.
///
/// An object that is read or made alone takes a line of memory for each of its fields.
@Documented
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.CLASS)
public @interface Columnar {}
