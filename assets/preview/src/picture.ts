// The data that tests/preview writes for a page: a dashboard's panels with the
// results of their queries.

import type { FieldConfigSource } from '@grafana/data';

export interface Picture {
  title: string;
  caption: string;
  from: number; // unix ms
  to: number;
  panels: Drawn[];
}

export interface Drawn {
  panel: Panel;
  series: Series[];
}

export interface Panel {
  type: 'timeseries' | 'stat';
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  fieldConfig: FieldConfigSource;
  options: { legend?: any; tooltip?: any; colorMode?: any; graphMode?: any; reduceOptions?: any };
}

export interface Series {
  name: string;
  times: number[]; // unix ms
  values: Array<number | string | null>;
}
