// Colours, and canvases of any size on any screen.

// They differ in lightness, too.
const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a63d2", "#b0a000"];

export const colourOf = n => HUES[n % HUES.length];

export const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function prepared(canvas, width, height) {
  const scale = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}
