#!/bin/sh
# Runs Maven on the Java part (java/) with a JDK 25, whatever the machine's own Java is: `java.sh verify`. Installs both
# if they are missing and Debian has them. `java.sh --home` only prints where the JDK is.
set -eu
cd "$(dirname "$0")/.."

is_jdk_25() {
    [ -x "$1/bin/javac" ] && grep -q '^JAVA_VERSION="25[."]' "$1/release" 2>/dev/null
}

# Prints the first JDK 25 of the usual places.
find_jdk() {
    on_path=$(command -v javac || true)
    for home in "${JAVA_HOME:-}" /usr/lib/jvm/* "${SDKMAN_DIR:-${HOME:-}/.sdkman}"/candidates/java/* \
        "${HOME:-}"/.jdks/* /opt/* /opt/java/* "${on_path:+$(dirname "$(dirname "$(readlink -f "$on_path")")")}"; do
        if is_jdk_25 "$home"; then
            echo "$home"
            return
        fi
    done
    return 1
}

if ! JAVA_HOME=$(find_jdk); then
    scripts/setup.sh jdk >&2
    JAVA_HOME=$(find_jdk)
fi
export JAVA_HOME
if [ "${1:-}" = --home ]; then
    echo "$JAVA_HOME"
    exit
fi
command -v mvn >/dev/null || scripts/setup.sh maven

# Maven compiles a module anew if one that it depends on changes in the same build, not if it has changed in an earlier
# one; nor does it look at annotation processors. Without what it remembers of a module, it compiles that anew.
changed=$(find java/objects/src/main java/processor/src/main java/pom.xml -newer java/target/compiled -print -quit \
    2>/dev/null || echo all)
if [ -n "$changed" ]; then
    rm -rf java/*/target/maven-status
    mkdir -p java/target
    touch java/target/compiled
fi

# Maven 3's own libraries use what JDK 25 warns of.
export MAVEN_OPTS="--sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED ${MAVEN_OPTS:-}"
exec mvn --file java/pom.xml --batch-mode --no-transfer-progress --fail-at-end "$@"
