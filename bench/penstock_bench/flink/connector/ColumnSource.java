package penstock.flink;

import java.nio.ByteBuffer;
import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;

/** Reader n reads part n from beginning to end, so a table must have as many parts as the job has parallel readers. */
final class ColumnSource implements Source<RowData, ColumnSource.Position, Integer> {

    /** How far a part has been read. */
    record Position(int part, int row) implements SourceSplit {
        @Override
        public String splitId() {
            return Integer.toString(part);
        }
    }

    private static final long serialVersionUID = 1L;

    private final String path;
    private final RowType rowType;

    ColumnSource(String path, RowType rowType) {
        this.path = path;
        this.rowType = rowType;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<RowData, Position> createReader(SourceReaderContext context) {
        return new ColumnReader(path, rowType);
    }

    @Override
    public SplitEnumerator<Position, Integer> createEnumerator(SplitEnumeratorContext<Position> context) {
        return new PartPerReader(context);
    }

    @Override
    public SplitEnumerator<Position, Integer> restoreEnumerator(SplitEnumeratorContext<Position> context, Integer none) {
        throw new UnsupportedOperationException("a benchmark that has failed is not restored");
    }

    @Override
    public SimpleVersionedSerializer<Position> getSplitSerializer() {
        return new PositionSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new NumberSerializer();
    }

    private record PartPerReader(SplitEnumeratorContext<Position> context) implements SplitEnumerator<Position, Integer> {
        @Override
        public void addReader(int reader) {
            context.assignSplit(new Position(reader, 0), reader);
            context.signalNoMoreSplits(reader);
        }

        @Override
        public Integer snapshotState(long checkpoint) {
            return 0;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int reader, String host) {}

        @Override
        public void addSplitsBack(List<Position> splits, int reader) {}

        @Override
        public void close() {}
    }

    private static final class PositionSerializer implements SimpleVersionedSerializer<Position> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Position position) {
            return ByteBuffer.allocate(8).putInt(position.part()).putInt(position.row()).array();
        }

        @Override
        public Position deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Position(buffer.getInt(), buffer.getInt());
        }
    }

    private static final class NumberSerializer implements SimpleVersionedSerializer<Integer> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Integer number) {
            return ByteBuffer.allocate(4).putInt(number).array();
        }

        @Override
        public Integer deserialize(int version, byte[] bytes) {
            return ByteBuffer.wrap(bytes).getInt();
        }
    }
}
