/** Bytes of one event: its instant, its kind, its subject. */
const stride = 16
const kindAt = 8
const subjectAt = 12

/** A binary heap of events in order of time: plain numbers in one buffer, nothing allocated per event. */
export class EventQueue {
  size = 0
  private view = new DataView(new ArrayBuffer(stride << 12))
  /** The event that `pop` took out last. */
  atMillis = 0
  kind = 0
  subject = 0

  get nextAt(): number {
    return this.size === 0 ? Infinity : this.read(0)
  }

  private read(place: number): number {
    return this.view.getFloat64(place * stride)
  }

  private put(place: number, at: number, kind: number, subject: number): void {
    this.view.setFloat64(place * stride, at)
    this.view.setInt32(place * stride + kindAt, kind)
    this.view.setInt32(place * stride + subjectAt, subject)
  }

  private copy(from: number, to: number): void {
    const { view } = this
    const kind = view.getInt32(from * stride + kindAt)
    this.put(to, this.read(from), kind, view.getInt32(from * stride + subjectAt))
  }

  private grow(): void {
    const wider = new Uint8Array(this.view.byteLength * 2)
    wider.set(new Uint8Array(this.view.buffer))
    this.view = new DataView(wider.buffer)
  }

  push(at: number, kind: number, subject: number): void {
    if (this.size * stride === this.view.byteLength) this.grow()
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
    this.kind = this.view.getInt32(kindAt)
    this.subject = this.view.getInt32(subjectAt)
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
    this.copy(last, place)
  }
}
