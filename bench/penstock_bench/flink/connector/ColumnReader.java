package penstock.flink;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.columnar.ColumnarRowData;
import org.apache.flink.table.data.columnar.vector.VectorizedColumnBatch;
import org.apache.flink.table.types.logical.RowType;

/** Emits the rows of one part in their order, BURST at a time, straight from the mapped files. */
final class ColumnReader implements SourceReader<RowData, ColumnSource.Position> {

    private static final int BURST = 128;

    private final String path;
    private final RowType rowType;
    private final CompletableFuture<Void> available = new CompletableFuture<>();
    private ColumnFiles files;
    private int part;
    private int row;

    ColumnReader(String path, RowType rowType) {
        this.path = path;
        this.rowType = rowType;
    }

    @Override
    public void addSplits(List<ColumnSource.Position> positions) {
        part = positions.get(0).part();
        row = positions.get(0).row();
        try {
            files = ColumnFiles.map(Path.of(path, Integer.toString(part)), rowType);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        available.complete(null);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<RowData> output) {
        if (files == null) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        VectorizedColumnBatch columns = files.columns();
        int first = row;
        int end = Math.min(files.rows(), first + BURST);
        while (row < end) {
            output.collect(new ColumnarRowData(columns, row++));
        }
        ColumnTables.ROWS_READ.add(end - first);
        return end < files.rows() ? InputStatus.MORE_AVAILABLE : InputStatus.END_OF_INPUT;
    }

    @Override
    public List<ColumnSource.Position> snapshotState(long checkpoint) {
        return files == null ? List.of() : List.of(new ColumnSource.Position(part, row));
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return available;
    }

    @Override
    public void start() {}

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
}
