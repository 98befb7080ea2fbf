package penstock.flink;

import java.io.IOException;
import java.nio.file.Path;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/** Writes one part per parallel writer. Only results that are final are taken: a query that takes rows back is refused. */
final class ColumnTableSink implements DynamicTableSink {

    private final String path;
    private final DataType rowType;

    ColumnTableSink(String path, DataType rowType) {
        this.path = path;
        this.rowType = rowType;
    }

    @Override
    public ChangelogMode getChangelogMode(ChangelogMode requested) {
        return ChangelogMode.insertOnly();
    }

    @Override
    public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
        return SinkV2Provider.of(new Parts(path, (RowType) rowType.getLogicalType()));
    }

    @Override
    public DynamicTableSink copy() {
        return new ColumnTableSink(path, rowType);
    }

    @Override
    public String asSummaryString() {
        return "columns";
    }

    private record Parts(String path, RowType rowType) implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) throws IOException {
            int part = context.getTaskInfo().getIndexOfThisSubtask();
            return new PartWriter(Path.of(path, Integer.toString(part)), rowType);
        }
    }
}
