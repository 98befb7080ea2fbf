package penstock.flink;

import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

/**
 * The connector 'columns': tables in plain column files, to read and to write. Values lie in the files as they lie in
 * memory, so this costs Flink less than any format that it brings along.
 *
 * <p>A table is a folder of numbered parts; a part has one file per column, NAME.values, with 8-byte little-endian values:
 * BIGINT, DOUBLE and TIMESTAMP (microseconds). INT has 4 bytes. VARCHAR has its UTF-8 bytes one after the other, and
 * NAME.ends says where each value ends. There are no nulls.
 */
public final class ColumnTables implements DynamicTableSourceFactory, DynamicTableSinkFactory {

    static final LongAdder ROWS_READ = new LongAdder();

    private static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();

    /** The rows that all readers of this process have emitted. */
    public static long rowsRead() {
        return ROWS_READ.sum();
    }

    @Override
    public String factoryIdentifier() {
        return "columns";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        return new ColumnTableSource(path(context), context.getPhysicalRowDataType());
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new ColumnTableSink(path(context), context.getPhysicalRowDataType());
    }

    private String path(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return helper.getOptions().get(PATH);
    }
}
