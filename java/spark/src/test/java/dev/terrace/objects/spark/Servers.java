package dev.terrace.objects.spark;

import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/// The servers with remote directories, each started when a test wants it first. They end with the
/// process.
enum Servers {
    S3 {
        @Override
        String uri(String directory) {
            return S3Server.uri(directory);
        }

        @Override
        Map<String, String> settings() {
            return s3().settings();
        }
    },
    HDFS {
        @Override
        String uri(String directory) {
            return Hdfs.CLUSTER.getURI() + "/" + directory;
        }

        @Override
        Map<String, String> settings() {
            // A client looks soon whether a file is complete, and for longer than a busy machine
            // takes.
            String close = "dfs.client.block.write.locateFollowingBlock.";
            return Map.of(close + "initial.delay.ms", "5", close + "retries", "13");
        }
    };

    private static final class S3Holder {
        static final S3Server SERVER = started();

        private static S3Server started() {
            try {
                return new S3Server();
            } catch (Exception e) {
                throw new ExceptionInInitializerError(e);
            }
        }
    }

    private static final class Hdfs {
        static final Path DIRECTORY = Path.of("target", "hdfs").toAbsolutePath();
        static final MiniDFSCluster CLUSTER = started();

        private static MiniDFSCluster started() {
            Configuration configuration = new Configuration();
            // Drivers of several names write to one table.
            configuration.setBoolean("dfs.permissions.enabled", false);
            configuration.set("dfs.namenode.http-address", "127.0.0.1:0");
            try {
                return new MiniDFSCluster.Builder(configuration, DIRECTORY.toFile())
                        .numDataNodes(1)
                        .build();
            } catch (Exception e) {
                throw new ExceptionInInitializerError(e);
            }
        }
    }

    /// The S3 server.
    static S3Server s3() {
        return S3Holder.SERVER;
    }

    /// The URI of a directory.
    abstract String uri(String directory);

    /// What a configuration of Hadoop needs to find it.
    abstract Map<String, String> settings();

    /// A configuration that knows it.
    Configuration configuration() {
        Configuration configuration = new Configuration();
        settings().forEach(configuration::set);
        return configuration;
    }
}
