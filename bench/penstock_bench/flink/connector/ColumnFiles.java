package penstock.flink;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.columnar.vector.BytesColumnVector;
import org.apache.flink.table.data.columnar.vector.ColumnVector;
import org.apache.flink.table.data.columnar.vector.DoubleColumnVector;
import org.apache.flink.table.data.columnar.vector.IntColumnVector;
import org.apache.flink.table.data.columnar.vector.LongColumnVector;
import org.apache.flink.table.data.columnar.vector.TimestampColumnVector;
import org.apache.flink.table.data.columnar.vector.VectorizedColumnBatch;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/** The mapped columns of one part. `rows.count` has the number of rows as text: a projection may be empty. */
record ColumnFiles(VectorizedColumnBatch columns, int rows) {

    static ColumnFiles map(Path folder, RowType rowType) throws IOException {
        ColumnVector[] columns = new ColumnVector[rowType.getFieldCount()];
        for (int column = 0; column < columns.length; column++) {
            columns[column] = column(folder, rowType.getFieldNames().get(column), rowType.getTypeAt(column));
        }
        int rows = Integer.parseInt(Files.readString(folder.resolve("rows.count")).trim());
        return new ColumnFiles(new VectorizedColumnBatch(columns), rows);
    }

    private static ColumnVector column(Path folder, String name, LogicalType type) throws IOException {
        ByteBuffer values = mapped(folder.resolve(name + ".values"));
        return switch (type.getTypeRoot()) {
            case BIGINT -> new Longs(values);
            case INTEGER -> new Ints(values);
            case DOUBLE -> new Doubles(values);
            case TIMESTAMP_WITHOUT_TIME_ZONE -> new Times(values);
            case VARCHAR -> new Strings(values, mapped(folder.resolve(name + ".ends")));
            default -> throw new IllegalArgumentException("column " + name + " has type " + type);
        };
    }

    private static ByteBuffer mapped(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    private record Longs(ByteBuffer values) implements LongColumnVector {
        @Override
        public long getLong(int row) {
            return values.getLong(row << 3);
        }

        @Override
        public boolean isNullAt(int row) {
            return false;
        }
    }

    private record Ints(ByteBuffer values) implements IntColumnVector {
        @Override
        public int getInt(int row) {
            return values.getInt(row << 2);
        }

        @Override
        public boolean isNullAt(int row) {
            return false;
        }
    }

    private record Doubles(ByteBuffer values) implements DoubleColumnVector {
        @Override
        public double getDouble(int row) {
            return values.getDouble(row << 3);
        }

        @Override
        public boolean isNullAt(int row) {
            return false;
        }
    }

    /** Event time has milliseconds in Flink: a time is rounded down. */
    private record Times(ByteBuffer values) implements TimestampColumnVector {
        @Override
        public TimestampData getTimestamp(int row, int precision) {
            return TimestampData.fromEpochMillis(Math.floorDiv(values.getLong(row << 3), 1000L));
        }

        @Override
        public boolean isNullAt(int row) {
            return false;
        }
    }

    private record Strings(ByteBuffer values, ByteBuffer ends) implements BytesColumnVector {
        @Override
        public Bytes getBytes(int row) {
            int start = row == 0 ? 0 : (int) ends.getLong((row - 1) << 3);
            byte[] bytes = new byte[(int) ends.getLong(row << 3) - start];
            values.get(start, bytes);
            return new Bytes(bytes, 0, bytes.length);
        }

        @Override
        public boolean isNullAt(int row) {
            return false;
        }
    }
}
