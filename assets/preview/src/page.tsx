// Draws window.picture with Grafana's own components. '#light' in the address
// selects the light theme.

import {
  createTheme,
  dateTime,
  FieldType,
  getDisplayProcessor,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  type DataFrame,
  type Field,
  type GrafanaTheme2,
  ThemeContext,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import type { Drawn, Picture, Series } from './picture';

declare global {
  interface Window {
    picture: Picture;
  }
}

// Grafana's grid: 24 columns, rows of 30 px, gaps of 8.
const width = 1400;
const gap = 8;
const cell = { w: (width + gap) / 24, h: 30 + gap };

const picture = window.picture;
const theme = createTheme({ colors: { mode: location.hash === '#light' ? 'light' : 'dark' } });

// "5 minutes ago" counts from the end of the range.
Date.now = () => picture.to;

// A field gets the defaults of the panel's fieldConfig, and the properties that overrides give to its name. Grafana itself
// applies a fieldConfig with a registry that only the whole of Grafana fills.
function configOf(name: string, d: Drawn) {
  const config: any = { ...d.panel.fieldConfig.defaults, custom: { ...d.panel.fieldConfig.defaults.custom } };
  for (const { matcher, properties } of d.panel.fieldConfig.overrides) {
    const matches = matcher.id === 'byName' ? matcher.options === name : new RegExp(matcher.options.slice(1, -1)).test(name);
    for (const { id, value } of matches ? properties : []) {
      const [first, second] = id.split('.');
      if (second) {
        config[first][second] = value;
      } else {
        config[first] = value;
      }
    }
  }
  return config;
}

function fieldOf(name: string, values: any[], d: Drawn, index = 0, isTime = false): Field {
  const text = values.some((v) => typeof v === 'string');
  const field: Field = {
    name,
    type: isTime ? FieldType.time : text ? FieldType.string : FieldType.number,
    values,
    config: configOf(name, d),
    state: { seriesIndex: index },
  };
  field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  return field;
}

function frame(s: Series, index: number, d: Drawn): DataFrame {
  const value = fieldOf(s.name, s.values, d, index);
  value.config.displayNameFromDS = s.name;
  value.name = 'Value';
  const time: Field = { name: 'Time', type: FieldType.time, values: s.times, config: {} };
  time.display = getDisplayProcessor({ field: time, theme, timeZone: 'utc' });
  return { name: s.name, length: s.times.length, fields: [time, value] };
}

function frames(d: Drawn): DataFrame[] {
  return d.series.map((s, i) => frame(s, i, d));
}

function Lines({ d, w, h }: { d: Drawn; w: number; h: number }) {
  const range = { from: dateTime(picture.from), to: dateTime(picture.to) };
  return (
    <TimeSeries
      frames={frames(d)}
      timeRange={{ ...range, raw: range }}
      timeZone="utc"
      width={w}
      height={h}
      legend={d.panel.options.legend}
    />
  );
}

function Values({ d, w, h }: { d: Drawn; w: number; h: number }) {
  const values = getFieldDisplayValues({
    data: frames(d),
    fieldConfig: d.panel.fieldConfig,
    reduceOptions: d.panel.options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
  // Values side by side get the same font size.
  const alignment = getDisplayValueAlignmentFactors(values);
  return (
    <div style={{ display: 'flex' }}>
      {values.map((v, i) => (
        <BigValue
          key={i}
          value={{ ...v.display, title: values.length > 1 ? v.display.title : undefined }}
          width={w / values.length}
          height={h}
          theme={theme}
          alignmentFactors={alignment}
          colorMode={d.panel.options.colorMode}
          graphMode={d.panel.options.graphMode}
        />
      ))}
    </div>
  );
}

const line = `1px solid ${theme.colors.border.weak}`;
const cut = { overflow: 'hidden', textOverflow: 'ellipsis', whiteSpace: 'nowrap' } as const;

function Empty({ h }: { h: number }) {
  return <div style={{ height: h, display: 'grid', placeItems: 'center', color: theme.colors.text.secondary }}>No data</div>;
}

// What does not fit is cut off, as it is in Grafana before one scrolls.
function Rows({ d, h }: { d: Drawn; h: number }) {
  const { columns, rows } = d.table!;
  if (rows.length === 0) {
    return <Empty h={h} />;
  }
  const row = { display: 'flex', height: 36, lineHeight: '35px', borderBottom: line };
  const fields = columns.map((c, i) =>
    fieldOf(c.name, rows.map((r) => r[i]), d, 0, columns[i].name === 'Time' || configOf(c.name, d).unit === 'dateTimeFromNow')
  );
  const cellOf = (width: number, right: boolean) => ({ ...cut, flex: 'none', width, padding: '0 6px', textAlign: right ? 'right' : 'left' }) as const;
  const isNumber = (i: number) => fields[i].type === FieldType.number;
  return (
    <div style={{ height: h, overflow: 'hidden' }}>
      <div style={{ ...row, fontWeight: theme.typography.fontWeightMedium }}>
        {columns.map((c, i) => (
          <div key={i} style={cellOf(c.width, isNumber(i))}>
            {c.name}
          </div>
        ))}
      </div>
      {rows.map((values, r) => (
        <div key={r} style={row}>
          {values.map((value, i) => {
            const { text, suffix, color } = fields[i].display!(value);
            const config = fields[i].config as any;
            const style = { ...cellOf(columns[i].width, isNumber(i)), color: undefined as string | undefined };
            if (config.custom.cellOptions?.type === 'color-text') {
              style.color = color;
            } else if (config.links) {
              style.color = theme.colors.text.link;
            }
            return (
              <div key={i} style={style}>
                {value === null || value === undefined ? (config.noValue ?? '') : text + (suffix ?? '')}
              </div>
            );
          })}
        </div>
      ))}
    </div>
  );
}

const axis = 24; // the height of the labels of time

function Hours({ left, w }: { left: number; w: number }) {
  const step = 10 * 60 * 1000;
  const ticks = [];
  for (let at = Math.ceil(picture.from / step) * step; at < picture.to; at += step) {
    ticks.push(at);
  }
  return (
    <div style={{ position: 'relative', height: axis, fontSize: 12, color: theme.colors.text.secondary }}>
      {ticks.map((at) => (
        <span key={at} style={{ position: 'absolute', left: left + w * share(at), transform: 'translateX(-50%)', top: 4 }}>
          {new Date(at).toISOString().slice(11, 16)}
        </span>
      ))}
    </div>
  );
}

const share = (at: number) => (at - picture.from) / (picture.to - picture.from);

interface Span {
  from: number;
  to: number;
  text: string;
  color?: string;
}

// A state lasts until the next one, a cell of a history for one interval.
function spans(s: Series, d: Drawn, index: number): Span[] {
  const history = d.panel.type === 'status-history';
  const display = fieldOf(s.name, s.values, d, index).display!;
  const interval = history ? 60 * 1000 : 0;
  const all: Span[] = [];
  s.values.forEach((value, i) => {
    const before = all[all.length - 1];
    if (value === null) {
      return;
    }
    const { text, color } = display(value);
    const to = history ? s.times[i] + 0.9 * interval : (s.times[i + 1] ?? picture.to);
    if (!history && before?.text === text && before.to === s.times[i]) {
      before.to = to;
    } else {
      all.push({ from: Math.max(s.times[i], picture.from), to: Math.min(to, picture.to), text, color });
    }
  });
  return all.filter((span) => span.to > span.from);
}

function Timeline({ d, w, h }: { d: Drawn; w: number; h: number }) {
  if (d.series.length === 0) {
    return <Empty h={h} />;
  }
  const names = 110;
  const mappings = (d.panel.fieldConfig.defaults.mappings?.[0] as any)?.options ?? {};
  const shown = new Set<string>();
  const rows = d.series.map((s, i) => ({ name: s.name, spans: spans(s, d, i) }));
  rows.forEach(({ spans }) => spans.forEach(({ text }) => shown.add(text)));
  const legend = Object.values<any>(mappings).filter(({ text }) => shown.has(text));
  const height = (h - axis - (legend.length ? 24 : 0)) / rows.length;
  const inner = w - names - 8;
  return (
    <div style={{ height: h, overflow: 'hidden' }}>
      {rows.map(({ name, spans }, i) => (
        <div key={i} style={{ position: 'relative', height }}>
          <div style={{ ...cut, width: names - 8, lineHeight: `${height}px`, fontSize: 12, textAlign: 'right' }}>{name}</div>
          {spans.map(({ from, to, text, color }, k) => {
            const width = Math.max(inner * (share(to) - share(from)), 1);
            return (
              <div
                key={k}
                style={{
                  ...cut,
                  position: 'absolute',
                  left: names + inner * share(from),
                  width,
                  top: height * 0.06,
                  height: height * 0.88,
                  lineHeight: `${height * 0.88}px`,
                  background: color,
                  color: theme.colors.getContrastText(color ?? '#000'),
                  fontSize: 12,
                  textIndent: 6,
                }}
              >
                {d.panel.options.showValue !== 'never' && width > 50 ? text : ''}
              </div>
            );
          })}
        </div>
      ))}
      <Hours left={names} w={inner} />
      {legend.length > 0 && (
        <div style={{ display: 'flex', gap: 16, fontSize: 12, paddingLeft: 8, lineHeight: '24px' }}>
          {legend.map(({ text, color }) => (
            <span key={text}>
              <span
                style={{ display: 'inline-block', width: 14, height: 4, marginRight: 6, verticalAlign: 'middle', background: theme.visualization.getColorByName(color) }}
              />
              {text}
            </span>
          ))}
        </div>
      )}
    </div>
  );
}

function Alerts({ d, h }: { d: Drawn; h: number }) {
  const all = d.alerts ?? [];
  if (all.length === 0) {
    return <Empty h={h} />;
  }
  return (
    <div style={{ height: h, overflow: 'hidden' }}>
      {all.map((a, i) => {
        const minutes = Math.round((picture.to - a.since) / 60000);
        const color = a.state === 'firing' ? theme.colors.error.text : theme.colors.warning.text;
        return (
          <div key={i} style={{ height: 50, padding: '4px 6px', borderBottom: line, lineHeight: '21px' }}>
            <div style={cut}>{a.title}</div>
            <div style={{ display: 'flex', fontSize: 12, gap: 8 }}>
              <span style={{ ...cut, flex: 1, color: theme.colors.text.secondary }}>{a.where}</span>
              <span style={{ color, flex: 'none' }}>
                {a.state} for {minutes} min
              </span>
            </div>
          </div>
        );
      })}
    </div>
  );
}

const kinds = {
  stat: Values,
  timeseries: Lines,
  table: Rows,
  'state-timeline': Timeline,
  'status-history': Timeline,
  alertlist: Alerts,
};

function Drawing({ d }: { d: Drawn }) {
  const { x, y, w, h } = d.panel.gridPos;
  const at = { position: 'absolute', left: x * cell.w, top: y * cell.h } as const;
  if (d.panel.type === 'row') {
    return (
      <div style={{ ...at, lineHeight: '30px', fontSize: theme.typography.h5.fontSize }}>
        {d.panel.collapsed ? '▸' : '▾'} {d.panel.title}{' '}
        {d.panel.collapsed && <span style={{ color: theme.colors.text.secondary }}>({d.panel.panels!.length} panels)</span>}
      </div>
    );
  }
  const Inside = kinds[d.panel.type];
  const padding = d.panel.type === 'table' || d.panel.type === 'alertlist' ? 'none' : 'md';
  return (
    <div style={at}>
      <PanelChrome title={d.panel.title} width={w * cell.w - gap} height={h * cell.h - gap} padding={padding}>
        {(innerWidth, innerHeight) => <Inside d={d} w={innerWidth} h={innerHeight} />}
      </PanelChrome>
    </div>
  );
}

function Page({ theme }: { theme: GrafanaTheme2 }) {
  const rows = Math.max(...picture.panels.map(({ panel }) => panel.gridPos.y + panel.gridPos.h));
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <main style={{ width, padding: `0 ${2 * gap}px` }}>
        <header style={{ height: picture.head, overflow: 'hidden' }}>
          <h2 style={{ margin: '12px 0 4px' }}>{picture.title}</h2>
          <p style={{ margin: 0, fontSize: 12, color: theme.colors.text.secondary }}>{picture.caption}</p>
        </header>
        <div style={{ position: 'relative', height: rows * cell.h }}>
          {picture.panels.map((d, i) => (
            <Drawing key={i} d={d} />
          ))}
        </div>
      </main>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('page')!).render(<Page theme={theme} />);
