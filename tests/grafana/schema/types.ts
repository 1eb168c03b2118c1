// The parts of Grafana's published types that this project uses: the dashboard
// itself; for each kind of panel, its options and its own part of the field
// configuration; and the expressions of alert rules.
import type { TypeMath, TypeReduce, TypeThreshold } from '@grafana/grafana-foundation-sdk/dist/expr/types.gen';
import type { Dashboard } from '@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type { TableFieldOptions } from '@grafana/schema';
import type * as stat from '@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as statetimeline from '@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen';
import type * as statushistory from '@grafana/schema/dist/types/raw/composable/statushistory/panelcfg/x/types.gen';
import type * as table from '@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as timeseries from '@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

// The builders add this mark; no file has it.
type Expression<T> = Omit<T, '_implementsDataqueryVariant'>;

// Grafana fills in defaults, so none of these has to be complete.
export interface Kinds {
  dashboard: Dashboard;
  options: {
    stat: stat.Options;
    'state-timeline': statetimeline.Options;
    'status-history': statushistory.Options;
    table: table.Options;
    timeseries: timeseries.Options;
  };
  custom: {
    'state-timeline': statetimeline.FieldConfig;
    'status-history': statushistory.FieldConfig;
    table: Partial<TableFieldOptions>;
    timeseries: timeseries.FieldConfig;
  };
  expression: {
    math: Expression<TypeMath>;
    reduce: Expression<TypeReduce>;
    threshold: Expression<TypeThreshold>;
  };
}
