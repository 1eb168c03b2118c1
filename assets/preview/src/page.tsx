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

// A field gets the defaults of the panel's fieldConfig, and the colour that an
// override gives to its name. Grafana itself applies a fieldConfig with a registry
// that only the whole of Grafana fills.
function colorOf(name: string, d: Drawn) {
  for (const { matcher, properties } of d.panel.fieldConfig.overrides) {
    const color = properties.find((p) => p.id === 'color');
    const matches = matcher.id === 'byName' ? matcher.options === name : new RegExp(matcher.options.slice(1, -1)).test(name);
    if (color && matches) {
      return { color: color.value };
    }
  }
  return {};
}

function frame(s: Series, index: number, d: Drawn): DataFrame {
  const type = s.values.some((v) => typeof v === 'string') ? FieldType.string : FieldType.number;
  const value: Field = {
    name: 'Value',
    type,
    values: s.values,
    config: { ...d.panel.fieldConfig.defaults, ...colorOf(s.name, d), displayNameFromDS: s.name },
    state: { seriesIndex: index },
  };
  const time: Field = { name: 'Time', type: FieldType.time, values: s.times, config: {} };
  for (const field of [time, value]) {
    field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  }
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

function Drawing({ d }: { d: Drawn }) {
  const { x, y, w, h } = d.panel.gridPos;
  const Inside = d.panel.type === 'stat' ? Values : Lines;
  return (
    <div style={{ position: 'absolute', left: x * cell.w, top: y * cell.h }}>
      <PanelChrome title={d.panel.title} width={w * cell.w - gap} height={h * cell.h - gap}>
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
      <main style={{ width, padding: 2 * gap }}>
        <h2>{picture.title}</h2>
        <p style={{ color: theme.colors.text.secondary }}>{picture.caption}</p>
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
