/** A binary heap of events in order of time: plain numbers in typed arrays, nothing allocated per event. */
export class EventQueue {
  size = 0
  private at = new Float64Array(1 << 12)
  private kinds = new Uint8Array(1 << 12)
  private subjects = new Int32Array(1 << 12)
  /** The event that `pop` took out last. */
  atMillis = 0
  kind = 0
  subject = 0

  get nextAt(): number {
    return this.size === 0 ? Infinity : this.read(0)
  }

  private read(place: number): number {
    return this.at[place] ?? Infinity
  }

  private put(place: number, at: number, kind: number, subject: number): void {
    this.at[place] = at
    this.kinds[place] = kind
    this.subjects[place] = subject
  }

  private copy(from: number, to: number): void {
    this.put(to, this.read(from), this.kinds[from] ?? 0, this.subjects[from] ?? 0)
  }

  private grow(): void {
    const at = new Float64Array(this.at.length * 2)
    const kinds = new Uint8Array(this.at.length * 2)
    const subjects = new Int32Array(this.at.length * 2)
    at.set(this.at)
    kinds.set(this.kinds)
    subjects.set(this.subjects)
    this.at = at
    this.kinds = kinds
    this.subjects = subjects
  }

  push(at: number, kind: number, subject: number): void {
    if (this.size === this.at.length) this.grow()
    let place = this.size++
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (this.read(parent) <= at) break
      this.copy(parent, place)
      place = parent
    }
    this.put(place, at, kind, subject)
  }

  /** Takes the earliest event out, into `atMillis`, `kind` and `subject`. The queue must not be empty. */
  pop(): void {
    this.atMillis = this.read(0)
    this.kind = this.kinds[0] ?? 0
    this.subject = this.subjects[0] ?? 0
    const last = --this.size
    if (last === 0) return
    const at = this.read(last)
    let place = 0
    while (true) {
      let child = 2 * place + 1
      if (child >= last) break
      if (child + 1 < last && this.read(child + 1) < this.read(child)) child++
      if (this.read(child) >= at) break
      this.copy(child, place)
      place = child
    }
    this.put(place, at, this.kinds[last] ?? 0, this.subjects[last] ?? 0)
  }
}
