// Draws one dashboard from window.DRAWING = {board, answers, from, to}: panels by Grafana's components, frames as its Prometheus data source makes them.
import { createRoot } from 'react-dom/client';
import { useEffect } from 'react';
import {
  applyFieldOverrides, cacheFieldDisplayNames, createTheme, DataFrame, dateTime, FieldType, getDisplayValueAlignmentFactors, getFieldDisplayValues,
  identityOverrideProcessor, standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry, ThemeContext, toDataFrame,
  transformDataFrame, VizOrientation,
} from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, PortalContainer, Table, TimeSeries, VizRepeater } from '@grafana/ui';

// An answer of Prometheus to one question of a panel.
type Answer = { names: string[]; result: { metric: Record<string, string>; value?: [number, string]; values?: [number, string][] }[] };
type Panel = Record<string, any>;

const { board, answers, from, to } = (window as any).DRAWING as { board: any; answers: Record<string, Answer[]>; from: number; to: number };
const WIDTH = 1280, COLUMNS = 24, ROW = 30, GAP = 8; // Grafana's own grid
const range = { from: dateTime(from), to: dateTime(to), raw: { from: dateTime(from), to: dateTime(to) } };
const theme = createTheme({ colors: { mode: 'dark' } });
const same = (text: string) => text;

// Grafana itself registers what fields can be given, and what is done to tables; so much of it is used here.
const property = (path: string, isCustom = false) =>
  ({ id: isCustom ? `custom.${path}` : path, path, isCustom, name: path, shouldApply: () => true, process: identityOverrideProcessor, override: identityOverrideProcessor });
standardFieldConfigEditorRegistry.setInit(() => [
  ...['unit', 'min', 'max', 'decimals', 'displayName', 'thresholds', 'mappings', 'color', 'noValue'].map((path) => property(path)),
  ...['width', 'align', 'lineWidth', 'fillOpacity', 'lineStyle'].map((path) => property(path, true)),
] as any);
const { mergeTransformer, organizeFieldsTransformer } = standardTransformers;
standardTransformersRegistry.setInit(() => [mergeTransformer, organizeFieldsTransformer].map((each) => ({ id: each.id, name: each.name, transformation: async () => each })) as any);

const column = (name: string, type: FieldType, values: any[], more = {}) => ({ name, type, values, config: {}, ...more });

// A table has a row for each answer; elsewhere each answer is a frame of its own, called by its legend.
function frames(panel: Panel): DataFrame[] {
  return answers[panel.id].flatMap(({ names, result }, number, { length }) => {
    if (panel.type !== 'table') {
      return result.map((row, i) => {
        const points = row.values ?? [row.value!];
        const value = column('Value', FieldType.number, points.map((point) => Number(point[1])), { labels: row.metric, config: { displayNameFromDS: names[i] } });
        return toDataFrame({ fields: [column('Time', FieldType.time, points.map((point) => point[0] * 1000)), value] });
      });
    }
    if (!result.length) return [];
    const labels = [...new Set(result.flatMap((row) => Object.keys(row.metric)))].sort();
    return [toDataFrame({ fields: [
      column('Time', FieldType.time, result.map((row) => row.value![0] * 1000)),
      ...labels.map((name) => column(name, FieldType.string, result.map((row) => row.metric[name] ?? ''))),
      column(length > 1 ? `Value #${panel.targets[number].refId}` : 'Value', FieldType.number, result.map((row) => Number(row.value![1]))),
    ] })];
  });
}

function content(panel: Panel, data: DataFrame[], width: number, height: number) {
  const { fieldConfig, options = {} } = panel;
  // As many values as fit, the way Grafana's panels of single values lay them out.
  const repeat = (orientation: string, value: (row: any) => JSX.Element, more = {}) => (
    <VizRepeater width={width} height={height} source={data} renderCounter={1} orientation={orientation as VizOrientation} itemSpacing={8} {...more}
      getValues={() => getFieldDisplayValues({ fieldConfig, data, theme, timeZone: 'utc', replaceVariables: same, reduceOptions: options.reduceOptions })}
      getAlignmentFactors={getDisplayValueAlignmentFactors} renderValue={value} />
  );
  switch (panel.type) {
    case 'timeseries':
      return <TimeSeries frames={data} timeRange={range} timeZone="utc" width={width} height={height} structureRev={1}
        legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...options.legend }} />;
    case 'stat':
      return repeat(options.orientation ?? 'auto', ({ value, alignmentFactors, count, ...place }) => (
        <BigValue {...place} value={value.display} alignmentFactors={alignmentFactors} count={count} theme={theme} justifyMode={options.justifyMode ?? 'auto'}
          graphMode={options.graphMode ?? 'area'} colorMode={options.colorMode ?? 'value'} textMode={options.textMode ?? 'auto'} />
      ), { autoGrid: true });
    case 'bargauge':
      return repeat(options.orientation ?? 'auto', ({ value, ...place }) => (
        <BarGauge {...place} value={value.display} field={value.field} display={value.view?.getFieldDisplayProcessor(value.colIndex)} theme={theme} text={options.text}
          displayMode={options.displayMode ?? 'gradient'} valueDisplayMode={options.valueMode ?? 'color'} namePlacement={options.namePlacement ?? 'auto'} showUnfilled />
      ), { minVizHeight: options.minVizHeight ?? 16, maxVizHeight: options.maxVizHeight ?? 300, minVizWidth: 8 });
    case 'table':
      return <Table data={data[0]} width={width} height={height} />;
  }
  throw new Error(`No component draws '${panel.type}'.`);
}

function Drawn({ panel, data }: { panel: Panel; data: DataFrame[] }) {
  const { x, y, w, h } = panel.gridPos, cell = WIDTH / COLUMNS;
  const width = w * cell - GAP, height = h * (ROW + GAP) - GAP;
  return (
    <section data-panel={panel.id} style={{ position: 'absolute', left: x * cell, top: y * (ROW + GAP), width, height }}>
      <PanelChrome title={panel.title} width={width} height={height}>
        {(wide: number, high: number) => (data.length ? content(panel, data, wide, high) : <div style={{ textAlign: 'center' }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>)}
      </PanelChrome>
    </section>
  );
}

// What can be read, and how many pixels of the lines have a colour: axes and grid are grey.
function report() {
  const drawn = [...document.querySelectorAll<HTMLElement>('[data-panel]')].map((place) => {
    let coloured = 0;
    for (const canvas of place.querySelectorAll('canvas')) {
      const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60) coloured++;
    }
    return { id: Number(place.dataset.panel), text: place.innerText, coloured };
  });
  document.body.dataset.drawn = JSON.stringify(drawn);
}

function Page({ panels }: { panels: { panel: Panel; data: DataFrame[] }[] }) {
  useEffect(() => void setTimeout(report, 2000), []);
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ position: 'relative', width: WIDTH }}>{panels.map((each) => <Drawn key={each.panel.id} {...each} />)}</div>
      <PortalContainer />
    </ThemeContext.Provider>
  );
}

function fail(error: unknown) {
  document.body.dataset.failed = String((error as Error)?.stack ?? error);
}
window.onerror = (message, _source, _line, _column, error) => fail(error ?? message);
window.onunhandledrejection = (event) => fail(event.reason);

async function main() {
  const panels = await Promise.all(board.panels.map(async (panel: Panel) => {
    const made = await new Promise<DataFrame[]>((resolve) => transformDataFrame(panel.transformations ?? [], frames(panel)).subscribe(resolve));
    const data = applyFieldOverrides({ data: made, fieldConfig: panel.fieldConfig, replaceVariables: same, theme, timeZone: 'utc' });
    cacheFieldDisplayNames(data);
    return { panel, data };
  }));
  createRoot(document.getElementById('root')!, { onUncaughtError: fail }).render(<Page panels={panels} />);
}
main().catch(fail);
