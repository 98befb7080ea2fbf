package penstock.flink;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;

/** A scan that reads only the columns the query needs, and makes watermarks where the rows are read. */
final class ColumnTableSource implements ScanTableSource, SupportsProjectionPushDown, SupportsWatermarkPushDown {

    private final String path;
    private DataType rowType;
    private WatermarkStrategy<RowData> watermarks = WatermarkStrategy.noWatermarks();

    ColumnTableSource(String path, DataType rowType) {
        this.path = path;
        this.rowType = rowType;
    }

    @Override
    public boolean supportsNestedProjection() {
        return false;
    }

    @Override
    public void applyProjection(int[][] projectedFields, DataType producedDataType) {
        rowType = producedDataType;
    }

    @Override
    public void applyWatermark(WatermarkStrategy<RowData> strategy) {
        watermarks = strategy;
    }

    @Override
    public ChangelogMode getChangelogMode() {
        return ChangelogMode.insertOnly();
    }

    @Override
    public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
        TypeInformation<RowData> produced = context.createTypeInformation(rowType);
        ColumnSource source = new ColumnSource(path, (RowType) rowType.getLogicalType());
        WatermarkStrategy<RowData> strategy = watermarks;
        return new DataStreamScanProvider() {
            @Override
            public DataStream<RowData> produceDataStream(ProviderContext provider, StreamExecutionEnvironment env) {
                return env.fromSource(source, strategy, "columns", produced);
            }

            @Override
            public boolean isBounded() {
                return true;
            }
        };
    }

    @Override
    public DynamicTableSource copy() {
        ColumnTableSource copy = new ColumnTableSource(path, rowType);
        copy.watermarks = watermarks;
        return copy;
    }

    @Override
    public String asSummaryString() {
        return "columns";
    }
}
