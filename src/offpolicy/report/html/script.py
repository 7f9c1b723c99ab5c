"""The page's script: it moves the slider's line, opens tables for print, and saves the JSON."""

from __future__ import annotations

SCRIPT = """
"use strict";
(function () {
  document.querySelectorAll("[data-curve]").forEach(function (box) {
    var told = JSON.parse(box.querySelector("script").textContent);
    var bar = box.querySelector(".slider"), input = bar.querySelector("input");
    var output = bar.querySelector("output");
    function show(moved) {
      var k = Number(input.value);
      output.textContent = told[k];
      input.setAttribute("aria-valuetext", told[k]);
      box.querySelectorAll(".cursor").forEach(function (line) {
        line.setAttribute("transform", "translate(" + line.dataset.stops.split(",")[k] + " 0)");
        line.classList.toggle("idle", !moved);
      });
    }
    input.addEventListener("input", function () { show(true); });
    box.querySelectorAll(".wide svg, .narrow svg").forEach(function (svg) {
      var stops = svg.querySelector(".cursor").dataset.stops.split(",");
      svg.addEventListener("pointermove", function (event) {
        var frame = svg.getBoundingClientRect();
        var x = (event.clientX - frame.left) * svg.viewBox.baseVal.width / frame.width;
        var best = 0;
        stops.forEach(function (stop, k) {
          if (Math.abs(stop - x) < Math.abs(stops[best] - x)) best = k;
        });
        input.value = best;
        show(true);
      });
    });
    bar.hidden = false;
    show(false);
  });
  var button = document.getElementById("save"), twin = document.getElementById("twin");
  if (button && twin) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([twin.textContent], { type: "application/json" }));
      link.download = button.dataset.name;
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
  }
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (one) { one.open = true; });
  });
})();
"""
