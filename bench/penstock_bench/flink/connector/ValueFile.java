package penstock.flink;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** A file of little-endian values, written through a buffer. */
final class ValueFile {

    private static final int CAPACITY = 1 << 16;

    private final FileChannel channel;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(CAPACITY).order(ByteOrder.LITTLE_ENDIAN);
    private long length;

    ValueFile(Path file) throws IOException {
        channel = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    }

    void putLong(long value) throws IOException {
        makeRoom(Long.BYTES);
        buffer.putLong(value);
    }

    void putInt(int value) throws IOException {
        makeRoom(Integer.BYTES);
        buffer.putInt(value);
    }

    /** Returns how many bytes there are in the file with these. */
    long putBytes(byte[] bytes) throws IOException {
        int done = 0;
        while (done < bytes.length) {
            makeRoom(1);
            int fits = Math.min(bytes.length - done, buffer.remaining());
            buffer.put(bytes, done, fits);
            done += fits;
        }
        return length += bytes.length;
    }

    private void makeRoom(int bytes) throws IOException {
        if (buffer.remaining() < bytes) {
            flush();
        }
    }

    void flush() throws IOException {
        buffer.flip();
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
        buffer.clear();
    }

    void close() throws IOException {
        channel.close();
    }
}
