package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// Keeps the value of a small field in a buffer of its own. Without this tag, small fields with the
/// same tiers share a buffer: setting one of them stores all of them anew.
@Documented
@Target({ElementType.FIELD, ElementType.RECORD_COMPONENT})
@Retention(RetentionPolicy.CLASS)
public @interface Apart {}
