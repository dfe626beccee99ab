package dev.terrace.objects.tools;

import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/// Numbers of bytes: `1048576`, `64M`, `1.5G`.
final class SizeConverter implements ITypeConverter<Long> {
    private static final String UNITS = "KMGT";

    @Override
    public Long convert(String value) {
        int unit =
                value.isEmpty()
                        ? -1
                        : UNITS.indexOf(Character.toUpperCase(value.charAt(value.length() - 1)));
        try {
            double number =
                    Double.parseDouble(unit < 0 ? value : value.substring(0, value.length() - 1));
            double bytes = number * (1L << 10 * (unit + 1));
            if (bytes >= 0 && bytes < Long.MAX_VALUE) {
                return Math.round(bytes);
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new TypeConversionException(
                "'" + value + "' is no number of bytes, as 1048576, 64M or 1.5G");
    }
}
