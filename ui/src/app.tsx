// The page: the list of runs, one run, or one recording.
import { usePlace } from "./state/place";
import { scale } from "./state/scale";
import { useStore } from "./state/store";
import { RunPage } from "./run_page";
import { RunsPage } from "./panels/runs";
import { RecordingPage } from "./recording/page";
import { isRecording } from "./recording/place";

export function App() {
  const place = usePlace();
  const by = useStore(scale);
  if (isRecording(location.pathname)) return <RecordingPage key={by} />;
  return place.run ? <RunPage key={`${by} ${place.run}`} /> : <RunsPage />;
}
