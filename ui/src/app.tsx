// The page: the list of runs, or one run.
import { usePlace } from "./state/place";
import { RunPage } from "./run_page";
import { RunsPage } from "./panels/runs";

export function App() {
  const place = usePlace();
  return place.run ? <RunPage key={place.run} /> : <RunsPage />;
}
