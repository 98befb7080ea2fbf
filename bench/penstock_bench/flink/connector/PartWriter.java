package penstock.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/** Writes rows as column files; the count of rows is written at the end. */
final class PartWriter implements SinkWriter<RowData> {

    /** Takes one field of a row. */
    private interface Column {
        void write(RowData row) throws IOException;
    }

    private final Path folder;
    private final Column[] columns;
    private final ValueFile[] files;
    private long rows;

    PartWriter(Path folder, RowType rowType) throws IOException {
        this.folder = Files.createDirectories(folder);
        columns = new Column[rowType.getFieldCount()];
        files = new ValueFile[2 * columns.length];
        for (int field = 0; field < columns.length; field++) {
            columns[field] = column(field, rowType.getFieldNames().get(field), rowType.getTypeAt(field));
        }
    }

    private Column column(int field, String name, LogicalType type) throws IOException {
        ValueFile values = files[2 * field] = new ValueFile(folder.resolve(name + ".values"));
        return switch (type.getTypeRoot()) {
            case BIGINT -> row -> values.putLong(row.getLong(field));
            case INTEGER -> row -> values.putInt(row.getInt(field));
            case DOUBLE -> row -> values.putLong(Double.doubleToRawLongBits(row.getDouble(field)));
            case TIMESTAMP_WITHOUT_TIME_ZONE -> row -> values.putLong(micros(row.getTimestamp(field, 3)));
            case VARCHAR, CHAR -> strings(field, values, new ValueFile(folder.resolve(name + ".ends")));
            default -> throw new IllegalArgumentException("column " + name + " has type " + type);
        };
    }

    private Column strings(int field, ValueFile values, ValueFile ends) {
        files[2 * field + 1] = ends;
        return row -> ends.putLong(values.putBytes(row.getString(field).toBytes()));
    }

    private static long micros(TimestampData time) {
        return time.getMillisecond() * 1000 + time.getNanoOfMillisecond() / 1000;
    }

    @Override
    public void write(RowData row, Context context) throws IOException {
        for (int field = 0; field < columns.length; field++) {
            if (row.isNullAt(field)) {
                throw new IOException("field " + field + " of a result row is null, which column files cannot say");
            }
            columns[field].write(row);
        }
        rows++;
    }

    @Override
    public void flush(boolean endOfInput) throws IOException {
        for (ValueFile file : files) {
            if (file != null) {
                file.flush();
            }
        }
        if (endOfInput) {
            Files.writeString(folder.resolve("rows.count"), Long.toString(rows));
        }
    }

    @Override
    public void close() throws IOException {
        for (ValueFile file : files) {
            if (file != null) {
                file.close();
            }
        }
    }
}
