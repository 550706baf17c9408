#pragma once

#include <string_view>

namespace accrue {

// The style sheet of a report. Lines keep their width and text its size, however far a chart is stretched.
inline constexpr std::string_view kReportStyle = R"css(
:root {
  --page: #f6f7f9; --card: #ffffff; --edge: #e3e6ea; --text: #1b1f24; --soft: #5d6672; --grid: #e9ecf0;
  --line: #2563c9; --points: #d9580d; --marks: #7a52c7; --dashed: #808996; --notice: #fff6dd;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #111418; --card: #191d23; --edge: #2b313a; --text: #e7eaee; --soft: #9aa4b1; --grid: #272d35;
    --line: #6ea3f5; --points: #f59a5b; --marks: #ae8ef0; --dashed: #7f8a98; --notice: #352d17;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1200px; margin: 0 auto; padding: 32px 24px 40px; }
h1 { margin: 0; font-size: 26px; line-height: 1.25; font-weight: 650; overflow-wrap: anywhere; }
h2 { margin: 32px 0 12px; font-size: 17px; font-weight: 650; }
h2 small { margin-left: 8px; font-size: 13px; font-weight: 400; color: var(--soft); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 8px 24px; margin: 16px 0 24px; }
.facts dt { font-size: 12px; color: var(--soft); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 12px; }
.figures div, figure, .table, .notice { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
.figures div { padding: 12px 14px; }
.figures span { display: block; font-size: 12px; color: var(--soft); }
.figures b { display: block; font-size: 18px; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
.figures i { margin: 0 4px; font-style: normal; font-weight: 400; color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 12px; }
figure { margin: 0; padding: 12px 14px; grid-column: span 6; }
figure.half { grid-column: span 3; }
figure.third { grid-column: span 2; }
figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 8px; min-height: 24px; }
figcaption b { font-weight: 600; }
.unit, .key { font-size: 12px; color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 0 14px; margin-left: auto; }
.key::before { content: ""; display: inline-block; margin-right: 6px; vertical-align: middle; }
.key.line::before { width: 16px; border-top: 2px solid var(--line); }
.key.dashed::before { width: 16px; border-top: 2px dashed var(--dashed); }
.key.points::before { width: 7px; height: 7px; border-radius: 50%; background: var(--points); }
.key.marks::before { width: 2px; height: 9px; background: var(--marks); }
.plot { padding: 10px 14px 26px 46px; }
.plot svg { display: block; overflow: visible; }
.plot text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.up { text-anchor: end; }
.across { text-anchor: middle; }
.grid, .tick { stroke: var(--grid); }
.tick { stroke: var(--dashed); }
.plot path { fill: none; stroke-linecap: round; stroke-linejoin: round; }
.plot .line, .plot .dashed, .plot .points, .plot .marks { vector-effect: non-scaling-stroke; }
.plot .line { stroke: var(--line); stroke-width: 1.75px; }
.plot .band { fill: var(--line); fill-opacity: .2; }
.plot .dashed { stroke: var(--dashed); stroke-width: 1.5px; stroke-dasharray: 5 4; stroke-linecap: butt; }
.plot .lone { stroke-width: 4px; stroke-dasharray: none; stroke-linecap: round; }
.plot .points { stroke: var(--points); stroke-width: 7px; }
.plot .marks { stroke: var(--marks); stroke-width: 1.5px; stroke-linecap: butt; }
.stripes path { stroke: var(--text); stroke-opacity: 0; stroke-linecap: butt; pointer-events: stroke; }
.stripes path:hover { stroke-opacity: .12; }
.nothing { margin: 0; padding: 70px 0; text-align: center; color: var(--soft); }
.notice { padding: 12px 14px; background: var(--notice); overflow-wrap: anywhere; }
.table { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: 7px 14px; text-align: right; border-top: 1px solid var(--grid); }
th { border-top: 0; font-weight: 500; color: var(--soft); }
th:last-child, td:last-child { text-align: left; }
@media (max-width: 900px) {
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  figure.half, figure.third { grid-column: span 6; }
}
@media (max-width: 500px) {
  main { padding: 20px 12px 28px; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px 16px; }
  .figures, .charts { gap: 8px; }
  .figures div { padding: 10px 12px; }
  .figures b { font-size: 16px; }
  .legend { margin-left: 0; width: 100%; }
  .plot { padding-right: 8px; padding-left: 40px; }
}
)css";

}  // namespace accrue
