// A tour: captions, each at a step of its run. README.md describes how they are written.
import {isRead, isRequest, kindOf, requestOf} from "player/state";

const NONE = [];

// The first step after `from` at a line with this text, or at one of the paper's lines, or that reads or
// writes an array: "read sK".
function stepAt(run, steps, from, place) {
  const [, verb, name] = place.match(/^(read|write) ([\w.]+)$/) ?? [];
  const isAt = (launch, event) => isRequest(event) && launch.arrays[requestOf(event).array]?.name === name &&
      isRead(kindOf(run, event), requestOf(event)) === (verb === "read");
  const hasText = (launch, [file, ...numbers]) => numbers.some(n => (run.lines[file][n - 1] ?? "").includes(place));
  const matches = (launch, {places, warps}) => verb ?
      warps.some(([warp, first, end]) => launch.warps[warp].slice(first, end).some(event => isAt(launch, event))) :
      places.some(one => hasText(launch, launch.places[one]));
  return steps.findIndex(({launch, parts, paper}, n) => n > from &&
      (paper?.startsWith(place) || parts.some(part => matches(launch, part))));
}

// The captions of a run's tour. Each begins with a line "@ PLACE | SHOWN, SHOWN"; the rest is its words.
// `named`: the steps of places that are no text of a line. A caption whose place the run lacks is left out.
export function captionsOf(run, steps, named) {
  let from = -1;
  return (run.tour ?? "").split(/^@ /m).slice(1).flatMap(one => {
    const [head, ...words] = one.trim().split("\n"), [place, shown = ""] = head.split(" | ");
    const step = place === "here" ? from : named[place] ?? stepAt(run, steps, from, place);
    if (step < 0) {
      console.warn(`The tour's place "${place}" is not in the run.`);
      return [];
    }
    from = step;
    return [{place, step, shown: shown.split(",").map(name => name.trim()).filter(Boolean), words: words.join(" ")}];
  });
}

// Plays a tour in the page: `guide()` is the player whose tour it is, `go(step)` takes all players to a step,
// and `told()` is called when it has come to a caption.
export class Tour {
  #timer = 0;
  #plays = false;

  constructor(box, {guide, go, told}) {
    Object.assign(this, {guide, go, told, captions: [], at: -1});
    [this.words, this.intro, this.backButton, this.playButton, this.nextButton] = box.children;
    this.backButton.onclick = () => this.back();
    this.nextButton.onclick = () => this.next();
    this.playButton.onclick = () => this.#plays ? this.stop() : this.#play();
  }

  get isMoving() {
    return this.#timer !== 0;
  }

  // Begins the tour of another run, or goes to one of its captions.
  open(at = -1) {
    this.leave();
    this.captions = this.guide().captions();
    if (at >= 0 && at < this.captions.length) this.#to(at, true);
    this.draw();
  }

  next() {
    this.stop();
    if (this.at < this.captions.length - 1) this.#to(this.at + 1);
  }

  back() {
    this.stop();
    if (this.at >= 0) this.#to(this.at - 1, true);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#plays = false;
    this.draw();
  }

  // The reader goes another way.
  leave() {
    this.at = -1;
    this.stop();
  }

  #play() {
    this.#plays = true;
    this.#to(this.at < this.captions.length - 1 ? this.at + 1 : 0);
  }

  #after(time, what) {
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      what();
    }, time);
  }

  // Goes to a caption, step by step unless at once; -1 is before the first.
  #to(at, atOnce = window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
    const player = this.guide(), from = this.at;
    this.at = at;
    if (at < 0) {
      player.mark(null);
      this.draw();
      return this.go(0);
    }
    const one = this.captions[at], target = one.step, pace = Math.max(15, Math.min(160, 1500 / (target - player.at)));
    player.beginTour();
    if (from < 0 && !atOnce) this.go(0);
    this.draw();
    const step = () => {
      const left = target - player.at;
      this.go(left <= 0 || atOnce ? target : player.at + 1);
      if (player.at !== target) return this.#after(pace, step);
      player.arrive(one);
      if (this.#plays) this.#after(1500 + 55 * one.words.length, () => this.#on());
      this.told();
    };
    step();
  }

  // The next caption, or the end.
  #on() {
    if (this.at === this.captions.length - 1) return this.stop();
    this.#to(this.at + 1);
  }

  draw() {
    const one = this.captions[this.at], last = this.at === this.captions.length - 1;
    this.intro.hidden = Boolean(one);
    this.words.hidden = !one;
    const words = one ? `${this.at + 1} of ${this.captions.length}. ${this.guide().filled(one)}` : "";
    if (this.words.textContent !== words) this.words.textContent = words;
    for (const button of [this.backButton, this.playButton, this.nextButton]) {
      button.hidden = this.captions.length === 0;
    }
    this.backButton.disabled = this.at < 0;
    this.nextButton.disabled = last;
    this.nextButton.textContent = this.at < 0 ? "Start the tour" : "Next";
    this.playButton.textContent = this.#plays ? "Stop" : "Play the tour";
    this.guide().emphasise(one?.shown ?? NONE);
  }
}
