// The data that tests/preview writes for a page: a dashboard's panels with the
// results of their queries.

import type { FieldConfigSource } from '@grafana/data';

export interface Picture {
  title: string;
  caption: string;
  head: number; // pixels above the first panel
  from: number; // unix ms
  to: number;
  panels: Drawn[];
}

export interface Drawn {
  panel: Panel;
  series: Series[];
  table?: Table;
  alerts?: Alert[];
}

export interface Table {
  columns: Array<{ name: string; width: number }>;
  rows: any[][];
}

export interface Alert {
  title: string;
  severity: string;
  where: string;
  state: string;
  since: number; // unix ms
}

export interface Panel {
  type: 'timeseries' | 'stat' | 'table' | 'state-timeline' | 'status-history' | 'alertlist' | 'row';
  title: string;
  collapsed?: boolean;
  panels?: Panel[];
  gridPos: { x: number; y: number; w: number; h: number };
  fieldConfig: FieldConfigSource; // not of rows and alert lists
  options: { legend?: any; showValue?: any; tooltip?: any; colorMode?: any; graphMode?: any; reduceOptions?: any };
}

export interface Series {
  name: string;
  times: number[]; // unix ms
  values: Array<number | string | null>;
}
