"""The page's style: print-like, light and dark, for desks, phones and paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--paper:#fdfcf9;--ink:#1c1b19;--soft:#5d5a54;--line:#ddd8ce;
--accent:#0a5a9c;--tint:#c9dcec;--faint:#e6eef5;--other:#8a857b;--alarm:#9c2f0b;--alarm-tint:#fbeee6;
--care:#7a5200;--care-tint:#faf3df}
@media (prefers-color-scheme:dark){:root{--paper:#16171a;--ink:#e9e6e0;--soft:#aca79d;--line:#3b3c40;
--accent:#86bdf0;--tint:#2b4a66;--faint:#203346;--other:#8d8980;--alarm:#f3a07c;--alarm-tint:#33201a;
--care:#e6c06a;--care-tint:#2c2719}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:17px/1.55 Charter,"Bitstream Charter",
"Sitka Text",Cambria,"Liberation Serif",Georgia,serif;font-kerning:normal}
main,footer{max-width:760px;margin:0 auto;padding:0 20px}
main{padding-top:56px}
.kicker,figcaption,table,summary,.meta,.slider,.tag,button,svg text,.key{font-family:"Helvetica Neue",
"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif;font-variant-numeric:tabular-nums}
.kicker{font-size:13px;color:var(--soft);margin:0 0 18px;overflow-wrap:anywhere}
h1{font-size:34px;line-height:1.22;font-weight:600;letter-spacing:-.01em;margin:0 0 14px;
overflow-wrap:anywhere;text-wrap:balance}
h1 .number{font-variant-numeric:tabular-nums lining-nums;white-space:nowrap}
h2{font-size:22px;line-height:1.3;font-weight:600;margin:64px 0 8px;overflow-wrap:anywhere}
h3{font-size:17px;font-weight:600;margin:32px 0 4px;overflow-wrap:anywhere}
p{margin:0 0 12px;overflow-wrap:anywhere;hyphens:manual}
#answer h2{margin-top:30px}
.lead{font-size:18px;color:var(--ink)}
.soft{color:var(--soft)}
a{color:var(--accent)}
.warning{border-left:4px solid var(--care);background:var(--care-tint);padding:12px 16px;margin:0 0 12px}
.warning.problem{border-color:var(--alarm);background:var(--alarm-tint)}
.warning p{margin:0 0 4px}.warning p:last-child{margin:0}
.tag{font-size:13px;font-weight:700;color:var(--care)}
.problem .tag{color:var(--alarm)}
figure{margin:16px 0 0}
.picture{display:block;max-width:100%;background:#fff}
figure svg{display:block;max-width:100%;height:auto;overflow:visible}
.narrow{display:none}
figcaption{font-size:13.5px;line-height:1.5;color:var(--soft);margin:8px 0 0;overflow-wrap:anywhere}
.key{font-size:13px;color:var(--soft);margin:6px 0 0}
details{margin:10px 0 0;border-top:1px solid var(--line)}
summary{font-size:13.5px;color:var(--accent);cursor:pointer;padding:7px 0}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:13px;line-height:1.4;margin:4px 0 8px}
th,td{padding:4px 14px 4px 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}
thead th{color:var(--soft);font-weight:600}
tbody th{font-weight:400}
th:first-child,td:first-child,.left td,.left th{text-align:left}
td,th{max-width:340px;overflow-wrap:break-word}bdi{overflow-wrap:anywhere}
thead th,.left th{overflow-wrap:normal}
tr>:last-child{padding-right:0}
.left td code,.left td{overflow-wrap:anywhere}
code{font:13px/1.5 "SF Mono",Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}
pre{margin:8px 0 14px;padding:12px 14px;background:var(--faint);white-space:pre-wrap}
.slider{font-size:14px;margin:10px 0 0}
.slider label{display:block;color:var(--soft);font-size:13px}
.slider input{width:100%;margin:6px 0;accent-color:var(--accent);height:24px}
.slider output{display:block;min-height:3em;line-height:1.5}
button{font-size:14px;padding:8px 16px;border:1px solid var(--accent);background:none;
color:var(--accent);cursor:pointer}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
footer{padding-top:40px;padding-bottom:56px;font-size:14px;color:var(--soft)}
.t{font-size:14px;fill:var(--ink)}.s{font-size:12.5px;fill:var(--soft)}
.n{font-variant-numeric:tabular-nums}.t.strong{font-weight:700;fill:var(--ink)}.t.dim{fill:var(--soft)}
.axis{stroke:var(--soft);stroke-width:1}.grid{stroke:var(--line);stroke-width:1}
.mark{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:2 3}
.range{stroke:var(--accent);stroke-width:3;stroke-linecap:butt}
.range.strong{stroke-width:6}.range.dim{stroke:var(--other)}
.dot{fill:var(--paper);stroke:var(--accent);stroke-width:2}.dot.strong{fill:var(--accent)}
.dot.dim{stroke:var(--other)}
.range.tip{fill:none;stroke-width:2}
.line{fill:none;stroke:var(--accent);stroke-width:2.2;stroke-linejoin:round}
.second{fill:none;stroke:var(--other);stroke-width:1.6;stroke-dasharray:5 3}
.noise{fill:var(--tint);stroke:none}.bias{fill:var(--faint);stroke:none}
.line-text{fill:var(--accent)}.second-text,.ran-text,.ring-text{fill:var(--soft)}
.points{fill:var(--accent);stroke:none}.whisker{stroke:var(--accent);stroke-width:1.2}
.ring{fill:var(--paper);stroke:var(--other);stroke-width:1.5}
.ran{fill:none;stroke:var(--other);stroke-width:1.4;stroke-dasharray:2 2}
.ideal{fill:none;stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}
.chosen{stroke:var(--ink);stroke-width:1.4}
.cursor-line{stroke:var(--alarm);stroke-width:1.6}.cursor.idle{display:none}
.bar{fill:var(--accent)}.bar.other{fill:var(--other)}.bar.tail{fill:var(--alarm)}
.outline{fill:none;stroke:var(--ink);stroke-width:1.3}
.halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
@media (max-width:759px){.wide{display:none}.narrow{display:block;max-width:480px}
body{font-size:16px}main{padding-top:28px}main,footer{padding-left:12px;padding-right:12px}
h1{font-size:26px}h2{margin-top:48px;font-size:20px}.lead{font-size:17px}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--line:#ccc;--accent:#0a4a80;
--tint:#c9dcec;--faint:#eaf1f7;--other:#777;--alarm:#8c2500;--alarm-tint:#fff;--care:#5f4000;
--care-tint:#fff}
body{font-size:11pt}main,footer{max-width:none;padding:0}h1{font-size:22pt}h2{margin-top:26pt;font-size:14pt}
.wide{display:block;max-width:720px}.narrow{display:none}.slider,.no-print,.cursor{display:none}
h2,h3,summary{break-after:avoid}figure svg,.warning,tr{break-inside:avoid}
.scroll{overflow:visible}details::details-content{content-visibility:visible;height:auto}
summary{color:var(--soft)}}
"""

FRAGMENT = """
.offpolicy{--paper:#fff;--ink:#1c1b19;--soft:#5d5a54;--line:#ddd8ce;--accent:#0a5a9c;--tint:#c9dcec;
--faint:#e6eef5;--other:#8a857b;--alarm:#9c2f0b;color:var(--ink);background:var(--paper);padding:8px 12px;
max-width:760px}
.offpolicy svg{max-width:100%;height:auto}.offpolicy td,.offpolicy th{text-align:right}
.offpolicy th:first-child{text-align:left}
.offpolicy svg text{font-family:"Helvetica Neue","Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
.offpolicy .t{font-size:14px;fill:var(--ink)}.offpolicy .s{font-size:12.5px;fill:var(--soft)}
.offpolicy .t.strong{font-weight:700;fill:var(--ink)}.offpolicy .t.dim{fill:var(--soft)}
.offpolicy .axis{stroke:var(--soft)}.offpolicy .grid{stroke:var(--line)}
.offpolicy .mark{stroke:var(--soft);stroke-dasharray:2 3}
.offpolicy .range{stroke:var(--accent);stroke-width:3}.offpolicy .range.strong{stroke-width:6}
.offpolicy .range.dim{stroke:var(--other)}
.offpolicy .dot{fill:var(--paper);stroke:var(--accent);stroke-width:2}
.offpolicy .dot.strong{fill:var(--accent)}.offpolicy .dot.dim{stroke:var(--other)}
.offpolicy .range.tip{fill:none;stroke-width:2}
"""
"""For notebooks, where the page around it has a style of its own."""
