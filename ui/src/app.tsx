// The page: the list of runs, one run, or one recording.
import { usePlace } from "./state/place";
import { RunPage } from "./run_page";
import { RunsPage } from "./panels/runs";
import { RecordingPage } from "./recording/page";
import { isRecording } from "./recording/place";

export function App() {
  const place = usePlace();
  if (isRecording(location.pathname)) return <RecordingPage />;
  return place.run ? <RunPage key={place.run} /> : <RunsPage />;
}
